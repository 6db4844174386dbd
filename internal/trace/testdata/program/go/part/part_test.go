package part

import "testing"

func TestFail(t *testing.T) {
	t.Run("inner", func(t *testing.T) {
		t.Errorf("got %d\nwant %d", 1, 2)
	})
	if 1 != 2 {
		t.Fatal("one is not two")
	}
}

func TestPanic(t *testing.T) {
	Fail(nil)
}
