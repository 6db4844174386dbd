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

// Layers shows on a terminal how far an image has come, a line for each of its layers, which are gone when it ends. Elsewhere
// it is silent. Only lines that have changed are written again; where the terminal's width changes, all.
type Layers struct {
	out   *notice.Writer
	what  string
	total int64 // bytes of what has no total of its own; 0 if that is not known
	end   chan struct{}
	over  chan struct{}

	mu   sync.Mutex
	list []belljar.ImageProgress // the newest of each layer, in the order of their coming
	at   map[string]int          // where in list a layer is
}

// NewLayers begins to show an image of so many bytes, 0 if that is not known. The caller stops it.
func NewLayers(to *notice.Writer, what string, total int64) *Layers {
	l := &Layers{out: to, what: what, total: total, end: make(chan struct{}), over: make(chan struct{}), at: map[string]int{}}
	if to.Quiet || !IsTerminal(to.Stderr) {
		close(l.over)
		return l
	}
	go l.show()
	return l
}

// Tell notes how far it is.
func (l *Layers) Tell(p belljar.ImageProgress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.Total == 0 && p.Layer == "" && p.Phase == belljar.ImagePulling {
		p.Total = l.total
	}
	if i, known := l.at[p.Layer]; known {
		old := l.list[i]
		if p.Phase == belljar.ImageUnpacking && old.Phase == belljar.ImagePulling && old.Done < old.Total {
			return // it is unpacked while it comes, and what is still to come tells more
		}
		l.list[i] = p
		return
	}
	l.at[p.Layer] = len(l.list)
	l.list = append(l.list, p)
}

// Stop takes the lines away.
func (l *Layers) Stop() {
	close(l.end)
	<-l.over
}

// show draws until it is stopped. What is over sooner shows nothing.
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

// lines are what there is to see, in at most so many columns and lines.
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
	if len(shown)+1 > most { // those that are at rest give way
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

// barWidth is how many columns a bar has.
const barWidth = 24

// layerLine is one layer.
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

// screen is what stands on a terminal, above the cursor.
type screen struct {
	lines []string
	width int
}

// draw is what to write so that these lines stand there.
func (s *screen) draw(lines []string, width int) string {
	var b strings.Builder
	if s.width != 0 && s.width != width || len(lines) < len(s.lines) { // old lines may have been broken anew
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

// clear is what to write so that nothing of it stands there.
func (s *screen) clear() string {
	n := len(s.lines)
	if n == 0 {
		return ""
	}
	s.lines = nil
	return fmt.Sprintf("\x1b[%dA\r\x1b[J", n)
}
