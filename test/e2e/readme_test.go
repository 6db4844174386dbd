//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// example is a command of a document and its expected output.
type example struct {
	command string
	prints  string
}

// examples returns the commands and outputs in the console block below a heading of a document.
func examples(t *testing.T, document, heading string) []example {
	t.Helper()
	raw, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(raw), "\n"+heading+"\n")
	if ok {
		_, after, ok = strings.Cut(after, "```console\n")
	}
	block, _, end := strings.Cut(after, "```\n")
	if !ok || !end {
		t.Fatalf("%s has no console block below %q", document, heading)
	}
	var list []example
	for line := range strings.Lines(block) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			list = append(list, example{command: command})
		} else if strings.HasPrefix(line, " ") { // the command continues
			list[len(list)-1].command += line
		} else {
			list[len(list)-1].prints += line
		}
	}
	return list
}

// typed reports whether an example can run unattended: the server already runs, and a terminal needs a user (TestSessionShell).
func (e example) typed() bool {
	return !strings.Contains(e.command, "belljar serve") && !strings.Contains(e.command, "belljar session shell")
}

// TestReadme runs the README's commands for the server and its sessions, and compares the output.
func TestReadme(t *testing.T) {
	s := serve(t, t.TempDir())
	var script strings.Builder
	list := append(examples(t, "../../README.md", "## A server"), examples(t, "../../README.md", "## Sessions")...)
	for i, e := range list {
		if !e.typed() {
			continue
		}
		fmt.Fprintf(&script, "%secho '--- %d'\n", e.command, i)
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "bash", "-u", "-o", "pipefail", "-c", script.String())
	cmd.Dir = dir
	cmd.Env = append(s.env(), "PATH="+filepath.Dir(built.Belljar)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("the tour ends with %v", err)
	}
	rest := string(out)
	for i, e := range list {
		if !e.typed() {
			continue
		}
		got, after, ok := strings.Cut(rest, fmt.Sprintf("--- %d\n", i))
		if !ok {
			t.Fatalf("the tour stops at:\n%s\n%s\n%s", e.command, rest, s.output)
		}
		rest = after
		if !like(e.prints, got) {
			t.Errorf("%sprints\n%s\nbut README says\n%s", e.command, got, e.prints)
		}
	}
}

// like compares output with an example, in which … matches anything on its line.
func like(example, got string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(example)), "…", ".*")
	return regexp.MustCompile("^" + pattern + "$").MatchString(strings.TrimSpace(got))
}
