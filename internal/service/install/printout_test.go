package install

import (
	"slices"
	"strings"
	"testing"
)

func TestPrintout(t *testing.T) {
	var out printout
	var lines []string
	print := func(p string) {
		out.add([]byte(p))
		out.lines([]byte(p), func(line string) { lines = append(lines, line) })
	}
	for _, p := range []string{"one\ntw", "", "o\n", "\n", strings.Repeat("x", 2*maxPrinted), "y\nthree\nfour"} {
		print(p)
	}
	if want := []string{"one", "two", "", strings.Repeat("x", maxPrinted), "three"}; !slices.Equal(lines, want) {
		t.Errorf("%d lines: %.100q", len(lines), lines)
	}
	if kept := string(out.kept()); len(kept) != maxPrinted || !strings.HasSuffix(kept, "xxy\nthree\nfour") {
		t.Errorf("%d bytes kept", len(kept))
	}
}

// A program that prints single bytes does not make the server move what is kept for each of them.
func TestPrintoutInSingleBytes(t *testing.T) {
	var out printout
	moves := 0
	for range 5 * maxPrinted {
		had := len(out.all)
		if out.add([]byte("x")); len(out.all) <= had {
			moves++
		}
	}
	if moves > 5 || len(out.kept()) != maxPrinted {
		t.Errorf("%d bytes kept, after %d moves", len(out.kept()), moves)
	}
}
