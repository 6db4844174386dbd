// Package show prints the results of commands: tables, facts and JSON on standard output, and progress on a terminal.
package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// JSON prints one object, indented.
func JSON(w io.Writer, v any) error { return encode(w, v, "  ") }

// JSONLine prints one object on one line.
func JSONLine(w io.Writer, v any) error { return encode(w, v, "") }

// encode also escapes the control characters that JSON allows. A terminal would obey those in names that a sandbox chose.
func encode(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", indent)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	text := b.Bytes()
	var out bytes.Buffer
	for at := bytes.IndexFunc(text, control); at >= 0; at = bytes.IndexFunc(text, control) {
		r, n := utf8.DecodeRune(text[at:])
		fmt.Fprintf(&out, `%s\u%04x`, text[:at], r)
		text = text[at+n:]
	}
	out.Write(text)
	_, err := w.Write(out.Bytes())
	return err
}

// control reports whether a character is one of the control characters that JSON need not escape.
func control(r rune) bool { return r >= 0x7f && r < 0xa0 }

// Command returns a command as a shell reads it: words that need it are quoted. On one line, a line break in a word would look like a space,
// and what follows it like a part of a comment.
func Command(argv []string) string {
	words := slices.Clone(argv)
	for i, word := range words {
		switch {
		case strings.ContainsFunc(word, unicode.IsControl):
			words[i] = escaped(word)
		case word == "" || strings.ContainsAny(word, " '\"\\$&|;<>()*?`[]{}~#!"):
			words[i] = ShellQuote(word)
		}
	}
	return strings.Join(words, " ")
}

// Word is [Command] for one word.
func Word(word string) string { return Command([]string{word}) }

// escaped returns a text as one word of bash, in which control characters show: $'a\nb'.
func escaped(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\'' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsControl(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return "$'" + b.String() + "'"
}

// ShellQuote returns a text as one word of a shell.
func ShellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
