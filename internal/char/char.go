// Package char keeps UTF-8 characters whole when bytes are cut, quotes names that could forge a line, and counts the values of JSON.
package char

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Unfinished returns how many bytes at the end of b begin a character whose rest is missing: 0 to 3.
func Unfinished(b []byte) int {
	for n := 1; n <= min(len(b), utf8.UTFMax-1); n++ {
		tail := b[len(b)-n:]
		if utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// WholeEnd returns b without an incomplete character at its end.
func WholeEnd(b []byte) []byte { return b[:len(b)-Unfinished(b)] }

// WholeStart returns b without an incomplete character at its start.
func WholeStart(b []byte) []byte {
	for i := range min(len(b), utf8.UTFMax) {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

// Short returns s, or its first n bytes and "…" if it is longer.
func Short(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:max(n, 0)], "") + "…"
}

// Quoted returns a file's name for a text. A name with characters that do not print is quoted: it cannot forge a line.
func Quoted(name string) string {
	if strings.HasPrefix(name, `"`) || strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}
