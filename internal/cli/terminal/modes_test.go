package terminal

import "testing"

func TestModes(t *testing.T) {
	for _, test := range []struct {
		name, want string
		shown      []string
	}{
		{"nothing", "", []string{"plain \x1b[31mred\x1b[0m \x1b]0;title\a"}},
		{"an editor", "\x1b[0m\x1b[?1l\x1b[?25h\x1b[?1006l\x1b[?1049l", []string{"\x1b[?1049h\x1b[?1h\x1b[?25l\x1b[?1006hx"}},
		{"an editor that has ended", "", []string{"\x1b[?1049h\x1b[?25l", "text\x1b[?25h\x1b[?1049l"}},
		{"several at once", "\x1b[0m\x1b[?1000l\x1b[?2004l", []string{"\x1b[?1000;2004;7777h"}},
		{"cut anywhere", "\x1b[0m\x1b[?1049l", []string{"a\x1b", "[", "?10", "49", "hb"}},
		{"not to be trusted", "", []string{"\x1b[?h\x1b[?;;l\x1b[?99999999999999999999h\x1b[?1049x\x1b\x1b\x1b["}},
		{"never ends", "\x1b[0m\x1b[?2004l", []string{"\x1b[?" + string(make([]byte, 100)), "\x1b[?2004h"}},
		{"other keys", "\x1b[0m\x1b[>4m", []string{"\x1b[>4;2m"}},
		{"other keys and back", "", []string{"\x1b[>4;2m\x1b[>4;0m", "\x1b[>4;1m\x1b[>4m", "\x1b[>4;1m\x1b[>4n"}},
		{"other resources of keys", "", []string{"\x1b[>1;2m\x1b[>c"}},
		{"keypad", "\x1b[0m\x1b>", []string{"\x1b", "="}},
		{"keypad and back", "", []string{"\x1b=\x1b>"}},
		{"kitty keys", "\x1b[0m\x1b[<2u", []string{"\x1b[>1u\x1b[>", "3u"}},
		{"kitty keys and back", "", []string{"\x1b[>1u\x1b[>3u\x1b[<2u", "\x1b[>1u\x1b[<u"}},
		{"kitty keys on a stack of the alternate screen", "\x1b[0m\x1b[<1u\x1b[?1049l\x1b[<1u", []string{"\x1b[>1u\x1b[?1049h\x1b[>1u"}},
		{"kitty keys that are set", "\x1b[0m\x1b[=0u", []string{"\x1b[=5;1u"}},
		{"kitty keys that are set and cleared", "", []string{"\x1b[=5;1u\x1b[=0u\x1b[?u"}},
		{"kitty keys that are set in an entry", "\x1b[0m\x1b[<1u", []string{"\x1b[>1u\x1b[=5u"}},
	} {
		var m modes
		for _, part := range test.shown {
			m.see([]byte(part))
		}
		if got := string(m.undo()); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
