package show

import (
	"fmt"
	"strings"
)

// Palette colours text on a terminal, and leaves it plain elsewhere.
type Palette struct{ on bool }

// NewPalette returns a palette that is on or off.
func NewPalette(on bool) Palette { return Palette{on: on} }

// Bold marks names.
func (p Palette) Bold(s string) string { return p.paint("1", s) }

// Dim marks remarks.
func (p Palette) Dim(s string) string { return p.paint("2", s) }

// Good marks what works.
func (p Palette) Good(s string) string { return p.paint("32", s) }

// Partial marks what works in part.
func (p Palette) Partial(s string) string { return p.paint("33", s) }

// Bad marks what does not work.
func (p Palette) Bad(s string) string { return p.paint("31", s) }

func (p Palette) paint(code, s string) string {
	if !p.on {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Advise writes a hint, if set, on its own line.
func (p Palette) Advise(b *strings.Builder, indent int, hint string) {
	if hint != "" {
		fmt.Fprintf(b, "%*s%s\n", indent, "", p.Partial("fix: ")+hint)
	}
}
