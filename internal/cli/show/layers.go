package show

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/notice"
)

// Layers shows the progress of an image on a terminal, one line for each layer, and clears the lines at the end. Without a
// terminal it is silent. It redraws only changed lines, or all if the terminal's width changes.
type Layers struct {
	out   *notice.Writer
	what  string
	total int64 // bytes, if p has no total; 0 if unknown
	end   chan struct{}
	over  chan struct{}

	mu   sync.Mutex
	list []belljar.ImageProgress // the latest of each layer, in order of first appearance
	at   map[string]int          // index in list of a layer
}

// NewLayers shows the progress of an image of total bytes, 0 if unknown. The caller stops it.
func NewLayers(to *notice.Writer, what string, total int64) *Layers {
	l := &Layers{out: to, what: what, total: total, end: make(chan struct{}), over: make(chan struct{}), at: map[string]int{}}
	if to.Quiet || !IsTerminal(to.Stderr) {
		close(l.over)
		return l
	}
	go l.show()
	return l
}

// Update updates the progress.
func (l *Layers) Update(p belljar.ImageProgress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.Total == 0 && p.Layer == "" && p.Phase == belljar.ImagePulling {
		p.Total = l.total
	}
	if i, known := l.at[p.Layer]; known {
		old := l.list[i]
		if p.Phase == belljar.ImageUnpacking && old.Phase == belljar.ImagePulling && old.Done < old.Total {
			return // unpacked during the download, whose progress is more useful
		}
		l.list[i] = p
		return
	}
	l.at[p.Layer] = len(l.list)
	l.list = append(l.list, p)
}

// Stop clears the lines.
func (l *Layers) Stop() {
	close(l.end)
	<-l.over
}

// show draws until stopped. A short operation shows nothing.
func (l *Layers) show() {
	defer close(l.over)
	tick := time.NewTicker(showEvery)
	defer tick.Stop()
	var on screen
	for {
		select {
		case <-l.end:
			fmt.Fprint(l.out.Stderr, on.clear())
			return
		case <-tick.C:
		}
		width, height := 80, 24
		if f, ok := l.out.Stderr.(*os.File); ok {
			if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
				width, height = w, h
			}
		}
		fmt.Fprint(l.out.Stderr, on.draw(l.lines(width-1, height-2), width))
	}
}

// lines returns the visible lines, limited to that many columns and lines.
func (l *Layers) lines(columns, most int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := []string{"belljar: " + notice.OneLine(l.what)}
	var shown []belljar.ImageProgress
	done := 0
	for _, p := range l.list {
		if p.Layer == "" && p.Phase == belljar.ImageResolving {
			continue
		}
		if p.Phase == belljar.ImageDone || p.Shared {
			done++
		}
		shown = append(shown, p)
	}
	if len(shown)+1 > most { // hide idle layers
		busy := shown[:0]
		for _, p := range shown {
			if p.Phase != belljar.ImageDone && !p.Shared && len(busy)+1 < most {
				busy = append(busy, p)
			}
		}
		lines[0] += fmt.Sprintf("  %s are ready", Plural(done, "layer"))
		shown = busy
	}
	for _, p := range shown {
		lines = append(lines, layerLine(p))
	}
	for i, line := range lines {
		if runes := []rune(line); len(runes) > columns {
			lines[i] = string(runes[:max(columns, 0)])
		}
	}
	return lines
}

// barWidth is the width of a bar in columns.
const barWidth = 24

// layerLine describes one layer.
func layerLine(p belljar.ImageProgress) string {
	name, state := "", p.Phase
	if _, digest, found := strings.Cut(p.Layer, ":"); found {
		name = digest[:min(12, len(digest))]
	}
	switch {
	case p.Shared:
		state = "here already"
	case p.Phase == belljar.ImageDone:
		state = "ready"
	}
	line := fmt.Sprintf("  %-12s  %-12s", notice.OneLine(name), state)
	switch {
	case p.Shared || p.Phase == belljar.ImageDone:
	case p.Total > 0:
		part := int(min(max(p.Done, 0), p.Total) * barWidth / p.Total)
		line += fmt.Sprintf("  %s%s  %s of %s", strings.Repeat("━", part), strings.Repeat("─", barWidth-part), Bytes(p.Done), Bytes(p.Total))
	case p.Done > 0:
		line += "  " + Bytes(p.Done)
	}
	return strings.TrimRight(line, " ")
}

// screen is the text above the cursor.
type screen struct {
	lines []string
	width int
}

// draw returns the output that replaces the screen by these lines.
func (s *screen) draw(lines []string, width int) string {
	var b strings.Builder
	if s.width != 0 && s.width != width || len(lines) < len(s.lines) { // the terminal may have rewrapped old lines
		b.WriteString(s.clear())
	}
	s.width = width
	for i, line := range lines {
		switch {
		case i >= len(s.lines):
			b.WriteString(line + "\r\n")
		case line != s.lines[i]:
			up := len(s.lines) - i
			fmt.Fprintf(&b, "\x1b[%dA\r\x1b[2K%s\x1b[%dB\r", up, line, up)
		}
	}
	s.lines = append(s.lines[:0], lines...)
	return b.String()
}

// clear returns the output that clears the screen.
func (s *screen) clear() string {
	n := len(s.lines)
	if n == 0 {
		return ""
	}
	s.lines = nil
	return fmt.Sprintf("\x1b[%dA\r\x1b[J", n)
}
