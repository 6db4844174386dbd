package terminal

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// A history is the end of the output, however it was split.
func TestHistory(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		h := history{most: 1 + rng.IntN(100)}
		var all []byte
		for range rng.IntN(40) {
			piece := make([]byte, rng.IntN(2*h.most))
			for i := range piece {
				piece[i] = 'a' + byte(rng.IntN(26))
			}
			h.add(piece)
			all = append(all, piece...)
		}
		want := all[max(0, len(all)-h.most):]
		if got := h.text(); !bytes.Equal(got, want) || h.lost != (len(all) > h.most) {
			t.Fatalf("of %d bytes the last %d are %q, want %q", len(all), h.most, got, want)
		}
	}
}

// A history without its beginning starts at a position that splits nothing.
func TestHistoryBegins(t *testing.T) {
	long := strings.Repeat("x", 2*cutWithin)
	for name, c := range map[string]struct{ printed, want string }{
		"line":                {"lost\nkept\nline", "line"},
		"escape":              {"12345678;31mno\x1b[0m", "\x1b[0m"},
		"character":           {"-----\xbc\xc3\x9fvwxyz", "ßvwxyz"},
		"nothing":             {"abcdefghij", "cdefghij"},
		"bytes":               {"\xbf\xbf\xbf\xbf\xbf\xbf\xbf\xbf\xbf\xbf", "\xbf\xbf\xbf\xbf\xbf\xbf\xbf\xbf"},
		"everything is there": {"\x9f12345", "\x9f12345"},
	} {
		h := history{most: 8}
		h.add([]byte(c.printed))
		if got := string(h.text()); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	h := history{most: len(long)}
	h.add([]byte("y" + long + "\n"))
	if got := h.text(); len(got) != len(long) {
		t.Errorf("%d bytes for want of a line", len(got))
	}
}

// Recovered output starts at the beginning of a line, however it is split, and however short the first piece is.
func TestOpening(t *testing.T) {
	long := strings.Repeat("x", cutWithin)
	for _, test := range []struct{ in, want string }{
		{"345\r\n346\r\n", "346\r\n"},
		{"\n346\r\n", "346\r\n"},
		{"\r\n346\r\n347", "346\r\n347"},
		{long + "\n346", long + "\n346"}, // the line is too long to search for its end
		{"\x80\x80" + long, long},
		{"m" + long[:100] + "\x1b[0m" + long, "\x1b[0m" + long},
	} {
		for _, size := range []int{1, 2, 3, 64, len(test.in)} {
			o := opening{within: cutWithin}
			var got []byte
			for rest := []byte(test.in); len(rest) > 0; {
				n := min(size, len(rest))
				got = append(got, o.pass(rest[:n])...)
				rest = rest[n:]
			}
			if string(got) != test.want {
				t.Errorf("%.20q in pieces of %d: %d bytes from %.20q, want %d from %.20q", test.in, size, len(got), got, len(test.want), test.want)
			}
		}
	}
	o := opening{}
	if got := o.pass([]byte("all of it")); string(got) != "all of it" {
		t.Errorf("%q", got)
	}
}
