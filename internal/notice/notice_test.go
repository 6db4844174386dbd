package notice

import "testing"

// The characters of a name or a message are visible: they cannot imitate another name or control
// the terminal.
func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain ünïcode 名前 🙂": "plain ünïcode 名前 🙂", "a\nb\tc\n": "a b c", "\x1b[31m\x7f\u009b": "?[31m??",
		"evil\u202egpj.exe": `evil\u202egpj.exe`, "\u202a\u202b\u202c\u202d": `\u202a\u202b\u202c\u202d`,
		"\u2066\u2067\u2068\u2069": `\u2066\u2067\u2068\u2069`, "\u200e\u200f\u061c": `\u200e\u200f\u061c`,
		"ad\u200bmin\u200c\u200d\u2060\ufeff\u00ad": `ad\u200bmin\u200c\u200d\u2060\ufeff\u00ad`, "a\u2028b\u2029": `a\u2028b\u2029`,
		"\u3164\u115f": `\u3164\u115f`, "tag\U000e0041": `tag\U000e0041`, "👩\u200d🚀": `👩\u200d🚀`,
		"bad\xff": "bad\ufffd", "": "",
	} {
		if got := OneLine(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}
