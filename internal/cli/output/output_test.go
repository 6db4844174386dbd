package output

import "testing"

func TestEncode(t *testing.T) {
	for raw, want := range map[string][2]string{
		"":         {"", "utf8"},
		"grüß\n":   {"grüß\n", "utf8"},
		"\xff\x00": {"/wA=", "base64"},
	} {
		text, encoding := encode([]byte(raw))
		if text != want[0] || encoding != want[1] {
			t.Errorf("%q: %q %s, want %q", raw, text, encoding, want)
		}
	}
}
