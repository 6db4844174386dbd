package transfer

import "testing"

func TestPlaceOf(t *testing.T) {
	for text, want := range map[string]place{
		"01a1:": {"01a1", ""}, "01a1:src/x": {"01a1", "src/x"}, "01a1:/workspace/x": {"01a1", "/workspace/x"}, "a:b:c": {"a", "b:c"},
	} {
		if got, ok := placeOf(text); !ok || got != want {
			t.Errorf("%s: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"file", "./a:b", "/x/a:b", ":x", "../a:b"} {
		if got, ok := placeOf(text); ok {
			t.Errorf("%s is taken for %v", text, got)
		}
	}
}
