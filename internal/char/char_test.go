package char

import "testing"

func TestUnfinished(t *testing.T) {
	for in, want := range map[string]int{
		"": 0, "a": 0, "é": 0, "a\xc3": 1, "\xe2\x82": 2, "\xf0\x9f\x98": 3, "\xf0\x9f\x98\x80": 0, "\x80\x80\x80\x80": 0, "\xff": 0,
		"\xc3a": 0, "\xe2": 1, "\xed\xa0": 0, "€\xe2": 1, "\xc0": 0,
	} {
		if got := Unfinished([]byte(in)); got != want {
			t.Errorf("Unfinished(%q) = %d, want %d", in, got, want)
		}
	}
}

func TestValues(t *testing.T) {
	for in, want := range map[string]int{`1`: 1, `[0,0]`: 3, `{"a":{"b":[]},"c,{[\",[":"\\","d":1}`: 6} {
		if got := Values([]byte(in)); got != want {
			t.Errorf("Values(%s) = %d, want %d", in, got, want)
		}
	}
}

func TestWhole(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a€": "a€", "\x82\xaca\xe2\x82": "a", "\xac€": "€", "\x80\x80\x80\x80a": "\x80\x80\x80\x80a",
	} {
		if got := string(WholeEnd(WholeStart([]byte(in)))); got != want {
			t.Errorf("%q of %q, want %q", got, in, want)
		}
	}
}

func TestShort(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"a€b", 3, "a…"}, {"a€b", 4, "a€…"}, {"", -1, "…"}, {"a", -3, "…"}} {
		if got := Short(c.in, c.n); got != c.want {
			t.Errorf("Short(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

func TestQuoted(t *testing.T) {
	for in, want := range map[string]string{"a é": "a é", "a\nb": `"a\nb"`, `"a"`: `"\"a\""`, "\x1b[2J": `"\x1b[2J"`} {
		if got := Quoted(in); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
