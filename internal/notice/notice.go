// Package notice writes Belljar's own messages for people: to stderr, one line each, with a "belljar:" prefix, no capital at
// the start and no full stop at the end. A "hint:" line follows if there is a next step. Standard output belongs to the
// program, or to the command's result.
package notice

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Writer writes notices.
type Writer struct {
	Stderr io.Writer
	Quiet  bool // no notes and no hints, only failures and warnings
}

// Print prints a line.
func (w *Writer) Print(format string, args ...any) {
	fmt.Fprintf(w.Stderr, "belljar: %s\n", OneLine(fmt.Sprintf(format, args...)))
}

// Note prints a line unless Quiet is set.
func (w *Writer) Note(format string, args ...any) {
	if !w.Quiet {
		w.Print(format, args...)
	}
}

// Hint prints the next step after the previous line, unless Quiet is set.
func (w *Writer) Hint(format string, args ...any) {
	if !w.Quiet {
		fmt.Fprintf(w.Stderr, "hint: %s\n", OneLine(fmt.Sprintf(format, args...)))
	}
}

// OneLine keeps a message on one line and free of terminal control, for any names in it. It escapes characters that are
// invisible or reorder others, as \u202e, so that two different names look different. Emoji that join several show the
// escape, too.
func OneLine(s string) string {
	var b strings.Builder
	for _, r := range strings.TrimRight(s, "\n") {
		switch {
		case r == '\n' || r == '\t':
			b.WriteByte(' ')
		case r < 0x20 || r >= 0x7f && r < 0xa0:
			b.WriteByte('?')
		case unseen(r) && r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		case unseen(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unseen reports whether a character is invisible: a control of direction or format, a line separator, or a filler.
func unseen(r rune) bool {
	return r >= 0x80 && unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}
