package client

import (
	"strings"
	"testing"
)

// FuzzEvents checks that arbitrary streams are parsed to their end, and that events contain only their data.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{
		"", "\n", "event: done\ndata: {}\n\n", "data: 1\n\n", ": \n\nevent:x\n\n", "event: a\r\ndata: b\r\n\r\n", "event: a\ndata: 1\ndata: 2\n\nevent: b", "event\n\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n := 0
		for e, err := range events(strings.NewReader(s)) {
			if err != nil {
				return
			}
			if n++; e.name == "" || n > len(s) {
				t.Fatalf("event %d of %q is %q", n, s, e.name)
			}
			for line := range strings.SplitSeq(string(e.data), "\n") {
				if !strings.Contains(s, line) {
					t.Fatalf("%q is not in %q", line, s)
				}
			}
		}
	})
}
