package terminal

import (
	"bytes"
	"testing"
)

func TestKeysOf(t *testing.T) {
	for text, want := range map[string]string{
		"ctrl-p,ctrl-q": "\x10\x11", "ctrl-]": "\x1d", "~,.": "~.", "ctrl-@": "\x00",
	} {
		if got, err := ParseKeys(text); err != nil || string(got.typed) != want {
			t.Errorf("%s: %q, %v, want %q", text, got.typed, err, want)
		}
	}
	for _, text := range []string{"", "ctrl-", "ctrl-pp", "ctrl-1", "escape", "a,,b"} {
		if got, err := ParseKeys(text); err == nil {
			t.Errorf("%q is taken for %q", text, got.typed)
		}
	}
}

func TestDetacher(t *testing.T) {
	for _, test := range []struct {
		typed []string
		on    string
		left  bool
	}{
		{[]string{"ls\n"}, "ls\n", false},
		{[]string{"a\x10\x11b"}, "a", true},
		{[]string{"a\x10", "\x11"}, "a", true},
		{[]string{"\x10", "x"}, "\x10x", false},
		{[]string{"\x10\x10", "\x11"}, "\x10", true},
		{[]string{"\x11\x10"}, "\x11", false},
	} {
		d := &detacher{keys: []byte("\x10\x11")}
		var on bytes.Buffer
		left := false
		for _, typed := range test.typed {
			passed, out := d.filter([]byte(typed))
			on.Write(passed)
			left = left || out
		}
		if on.String() != test.on || left != test.left {
			t.Errorf("%q: %q, left %v, want %q, %v", test.typed, on.String(), left, test.on, test.left)
		}
	}
	one := &detacher{keys: []byte("~")}
	if on, left := one.filter([]byte("a~b")); string(on) != "a" || !left {
		t.Errorf("one key: %q, left %v", on, left)
	}
}
