// Package show prints the results of commands: tables, facts and JSON on standard output, and progress on a terminal.
package show

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
)

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// JSON prints one object, indented.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Command returns a command as a shell reads it: words that need it are quoted.
func Command(argv []string) string {
	words := slices.Clone(argv)
	for i, word := range words {
		if word == "" || strings.ContainsAny(word, " \t\n'\"\\$&|;<>()*?`[]{}~#!") {
			words[i] = ShellQuote(word)
		}
	}
	return strings.Join(words, " ")
}

// ShellQuote returns a text as one word of a shell.
func ShellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
