//go:build linux

package guest

import "testing"

func FuzzParseTimes(f *testing.F) {
	f.Add([]byte("1 (a b) c) S 0 1 1 0 -1 4194560 2000 30 7 0 5 6 7 8 20 0 1 0 9 1 1"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if user, system, ok := parseTimes(b); !ok && user+system != 0 {
			t.Errorf("%q: %d, %d", b, user, system)
		}
	})
}

func TestParseTimes(t *testing.T) {
	user, system, ok := parseTimes([]byte("1 (a b) c) S 0 1 1 0 -1 4194560 2000 30 7 0 5 6 7 8 20 0 1 0 9 1 1"))
	if !ok || user != 120_000 || system != 140_000 {
		t.Errorf("%d, %d, %v", user, system, ok)
	}
}
