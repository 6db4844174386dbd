package show

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/notice"
)

func layerOf(letter string) string { return "sha256:" + strings.Repeat(letter, 64) }

func TestLayerLines(t *testing.T) {
	l := &Layers{what: "python:3.11", at: map[string]int{}}
	for _, p := range []belljar.ImageProgress{
		{Phase: belljar.ImageResolving},
		{Phase: belljar.ImagePulling, Layer: layerOf("a"), Done: 1 << 20, Total: 2 << 20},
		{Phase: belljar.ImagePulling, Layer: layerOf("b"), Shared: true},
		{Phase: belljar.ImagePulling, Layer: layerOf("c"), Done: 10},
		{Phase: belljar.ImageUnpacking, Layer: layerOf("c"), Done: 3 << 10},
		{Phase: belljar.ImageUnpacking, Layer: layerOf("d"), Done: 9, Total: 3},
	} {
		l.Update(p)
	}
	want := []string{
		"belljar: python:3.11",
		"  aaaaaaaaaaaa  pulling       ━━━━━━━━━━━━────────────  1.0 MiB of 2.0 MiB",
		"  bbbbbbbbbbbb  here already",
		"  cccccccccccc  unpacking     3.0 KiB",
		"  dddddddddddd  unpacking     ━━━━━━━━━━━━━━━━━━━━━━━━  9 B of 3 B",
	}
	if diff := cmp.Diff(want, l.lines(100, 20)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A layer that is unpacked during its download shows the download first, and then the rest of the unpacking.
	l.Update(belljar.ImageProgress{Phase: belljar.ImageUnpacking, Layer: layerOf("a"), Done: 5})
	if got := l.lines(100, 20)[1]; got != want[1] {
		t.Errorf("unpacked while it comes: %q", got)
	}
	// In a small terminal, idle layers are hidden and no line wraps.
	few := l.lines(20, 3)
	if len(few) != 3 || !strings.Contains(few[1], "aaaa") || !strings.Contains(few[2], "cccc") {
		t.Errorf("in three lines: %q", few)
	}
	for _, line := range few {
		if len([]rune(line)) > 20 {
			t.Errorf("%q is longer than the terminal is wide", line)
		}
	}
	for columns := -2; columns < 3; columns++ {
		for most := -2; most < 3; most++ {
			if n := len(l.lines(columns, most)); n > max(most, 1) {
				t.Errorf("%d lines where there is room for %d", n, most)
			}
		}
	}
}

// fakeScreen emulates a terminal with the few control sequences in use.
type fakeScreen struct {
	lines []string
	row   int
}

func (g *fakeScreen) write(t *testing.T, s string) {
	t.Helper()
	for len(g.lines) <= g.row {
		g.lines = append(g.lines, "")
	}
	for s != "" {
		switch {
		case strings.HasPrefix(s, "\x1b["):
			end := strings.IndexAny(s, "ABJK")
			n := 0
			for _, c := range s[2:end] {
				n = n*10 + int(c-'0')
			}
			switch s[end] {
			case 'A':
				g.row -= n
			case 'B':
				g.row += n
			case 'J':
				g.lines = g.lines[:g.row+1]
				g.lines[g.row] = ""
			case 'K':
				g.lines[g.row] = ""
			}
			if g.row < 0 {
				t.Fatal("it goes above what it has written")
			}
			s = s[end+1:]
		case s[0] == '\r':
			s = s[1:]
		case s[0] == '\n':
			g.row++
			for len(g.lines) <= g.row {
				g.lines = append(g.lines, "")
			}
			s = s[1:]
		default:
			g.lines[g.row] += s[:1]
			s = s[1:]
		}
	}
}

func TestScreen(t *testing.T) {
	var on screen
	var shown fakeScreen
	for i, step := range []struct {
		lines []string
		width int
	}{
		{[]string{"one"}, 80}, {[]string{"one", "two", "three"}, 80}, {[]string{"one", "TWO", "three"}, 80},
		{[]string{"one", "TWO", "three"}, 40}, {[]string{"one"}, 40}, {nil, 40}, {[]string{"again", "and"}, 40},
	} {
		wrote := on.draw(step.lines, step.width)
		shown.write(t, wrote)
		if got := strings.TrimRight(strings.Join(shown.lines, "\n"), "\n"); got != strings.Join(step.lines, "\n") {
			t.Fatalf("step %d shows %q, want %q", i, got, step.lines)
		}
		if i == 2 && (strings.Contains(wrote, "one") || strings.Contains(wrote, "three")) {
			t.Errorf("lines that have not changed are written again: %q", wrote)
		}
		if again := on.draw(step.lines, step.width); again != "" {
			t.Errorf("step %d: the same is drawn again: %q", i, again)
		}
	}
	shown.write(t, on.clear())
	if got := strings.Join(shown.lines, ""); got != "" {
		t.Errorf("%q is left", got)
	}
}

// Output to a pipe holds only the result.
func TestLayersInAPipe(t *testing.T) {
	var output strings.Builder
	l := NewLayers(&notice.Writer{Stderr: &output}, "x", 0)
	l.Update(belljar.ImageProgress{Phase: belljar.ImagePulling, Done: 1})
	if l.Stop(); output.Len() > 0 {
		t.Errorf("%q", output.String())
	}
}
