//go:build linux

package examples

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// shown is a command of a document and its documented output.
type shown struct {
	command string
	prints  string
}

// commandsOf returns the commands and outputs in the console blocks of a document, in order.
func commandsOf(t *testing.T, document string) []shown {
	t.Helper()
	raw, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	var list []shown
	inside := false
	for line := range strings.Lines(string(raw)) {
		command, typed := strings.CutPrefix(line, "$ ")
		switch {
		case !inside:
			inside = line == "```console\n"
		case line == "```\n":
			inside = false
		case typed:
			list = append(list, shown{command: command})
		case len(list) == 0:
			t.Fatalf("%s begins with output: %q", document, line)
		case list[len(list)-1].prints == "" && continues(list[len(list)-1].command):
			list[len(list)-1].command += line
		default:
			list[len(list)-1].prints += line
		}
	}
	if len(list) == 0 {
		t.Fatalf("%s shows no command", document)
	}
	return list
}

// continues reports whether a command continues on the next line.
func continues(command string) bool {
	return strings.HasSuffix(command, "\\\n") || strings.HasSuffix(command, "|\n") || strings.HasSuffix(command, "&&\n")
}

// script runs the commands one after the other, each followed by an end marker.
func script(list []shown) string {
	var b strings.Builder
	for i, s := range list {
		fmt.Fprintf(&b, "%s\necho '--- %d'\n", strings.TrimSuffix(s.command, "\n"), i)
	}
	return b.String()
}

// compare finds what each command printed and compares it with the document.
func compare(t *testing.T, list []shown, printed string) {
	t.Helper()
	for i, s := range list {
		got, rest, ok := strings.Cut(printed, fmt.Sprintf("--- %d\n", i))
		if !ok {
			t.Fatalf("it stops at\n%s\nand says\n%s", s.command, printed)
		}
		printed = rest
		if !like(s.prints, got) {
			t.Errorf("%sprints\n%s\nbut the document says\n%s", s.command, got, s.prints)
		}
	}
}

// like compares output with a document's. In the document, … matches anything on its line, and a line with only … matches
// any number of lines.
func like(shows, got string) bool {
	var pattern strings.Builder
	pattern.WriteString("^")
	for line := range strings.Lines(trimmed(shows) + "\n") {
		if strings.TrimSpace(line) == "…" {
			pattern.WriteString(`(.*\n)*`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*"))
	}
	pattern.WriteString("$")
	return regexp.MustCompile(pattern.String()).MatchString(trimmed(got) + "\n")
}

// trimmed returns text without spaces at the ends of its lines and empty lines at its ends.
func trimmed(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
