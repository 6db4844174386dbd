package main

import (
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/belljar/belljar"
)

// show prints the demo. On a terminal it uses colours, and each line first shows the attempt.
type show struct {
	out      *os.File
	terminal bool
	width    int
	hostile  *bool // of the previous line
}

// The columns of a line, in characters.
const (
	nameWidth    = 13
	triesWidth   = 50
	minimumWidth = 100
)

const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func newShow(out *os.File) *show {
	s := &show{out: out, width: minimumWidth}
	s.terminal = term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb"
	if width, _, err := term.GetSize(int(out.Fd())); err == nil && width > 0 {
		s.width = width
	}
	return s
}

func (s *show) title(format string, args ...any) {
	fmt.Fprintf(s.out, "\n%s: %s\n", s.colour(bold, "Belljar"), fmt.Sprintf(format, args...))
}

func (s *show) line(format string, args ...any) {
	fmt.Fprintf(s.out, "  %s\n", s.colour(red, fmt.Sprintf(format, args...)))
}

// attempt prints the next attempt; outcome overwrites it.
func (s *show) attempt(p program) {
	if s.hostile == nil || *s.hostile != p.hostile {
		heading := "Honest programs"
		if p.hostile {
			heading = "Hostile programs"
		}
		fmt.Fprintf(s.out, "\n  %s\n", s.colour(bold, heading+strings.Repeat(" ", nameWidth+triesWidth+5-len(heading))+"  time    peak   outcome"))
		s.hostile = &p.hostile
	}
	if s.terminal {
		fmt.Fprintf(s.out, "  %s %s%s", s.colour(dim, "·"), pad(p.name, nameWidth), s.colour(dim, pad(p.tries, triesWidth)))
	}
}

// outcome prints the result.
func (s *show) outcome(p program, r result, err error) {
	if s.terminal {
		fmt.Fprint(s.out, "\r\x1b[K")
	}
	mark, tint := s.colour(green, "✓"), yellow
	if err != nil {
		mark = s.colour(red, "✗")
	}
	words := verdict(r)
	if r.Phase == belljar.PhaseCompleted {
		tint = dim
	}
	if err == nil && s.terminal { // a failure is printed in full
		words = clip(words, s.width-nameWidth-triesWidth-4-18)
	}
	fmt.Fprintf(s.out, "  %s %s%s%8s %9s  %s\n", mark, pad(p.name, nameWidth), s.colour(dim, pad(p.tries, triesWidth)),
		duration(r), memory(r), s.colour(tint, words))
	if err != nil {
		s.line("  %s: %v", p.name, err)
	}
}

// closing prints the summary.
func (s *show) closing(n, wrong int, took time.Duration) {
	if wrong > 0 {
		fmt.Fprintf(s.out, "\n  %s %.1f s in all.\n\n", s.colour(red, fmt.Sprintf("%d of %d did not end as they must.", wrong, n)), took.Seconds())
		return
	}
	fmt.Fprintf(s.out, "\n  %s The honest ones did their work, the hostile ones got nothing. %.1f s in all.\n\n",
		s.colour(green, fmt.Sprintf("All %d ended as they must.", n)), took.Seconds())
}

func (s *show) colour(code, text string) string {
	if !s.terminal || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// verdict describes the result in a few words.
func verdict(r result) string {
	switch {
	case r.Phase == "":
		return "did not run"
	case r.Phase == belljar.PhaseTimedOut:
		return "stopped: out of time"
	case r.ReasonCode == belljar.ReasonOOMKilled:
		return "killed: out of memory"
	case r.ReasonCode == belljar.ReasonPidsLimit:
		return "contained: no more processes"
	case r.Truncated:
		return fmt.Sprintf("cut: %d MiB kept", len(r.Stdout)>>20)
	case r.ReasonCode == belljar.ReasonNonZeroExit:
		return fmt.Sprintf("status %d: %s", *r.ExitCode, lastLine(r.Stderr))
	case r.ReasonCode != "":
		return string(r.ReasonCode)
	}
	return lastLine(r.Stdout)
}

func duration(r result) string {
	if r.ResourceUsage == nil {
		return "–"
	}
	return fmt.Sprintf("%.2f s", r.ResourceUsage.WallTimeSec)
}

func memory(r result) string {
	if r.ResourceUsage == nil || r.ResourceUsage.PeakRSSMB == nil {
		return "–"
	}
	return fmt.Sprintf("%.0f MiB", *r.ResourceUsage.PeakRSSMB)
}

// lastLine returns the last line of a program's output, without control characters.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	s = s[strings.LastIndexByte(s, '\n')+1:]
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, s)
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(1, width-utf8.RuneCountInString(s)))
}

func clip(s string, width int) string {
	runes := []rune(s)
	if width = max(width, 12); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return s
}
