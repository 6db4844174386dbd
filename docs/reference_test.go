package docs

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// private matches references to documents that the repository does not have. Write a link to docs/compatibility.md instead.
var private = regexp.MustCompile(`\bS[0124]\b|\bS3 §|\bS3's (API|door|clients?)\b|\bDESIGN( §|\.md)`)

// git returns the lines that a Git command prints about the repository. Source without a repository is not tested.
func git(t *testing.T, arguments ...string) []string {
	t.Helper()
	out, err := exec.Command("git", append([]string{"-C", ".."}, arguments...)...).Output()
	if err != nil {
		t.Skip("no git here:", err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// TestReferences refuses references that a reader cannot follow.
func TestReferences(t *testing.T) {
	for _, name := range git(t, "ls-files", "*.go", "*.md", "*.py", "*.ts", "*.mjs", "*.yaml", "*.yml", "*.txtar", "*.sql", "*.sh", "*.svelte", "Makefile") {
		if name == "docs/reference_test.go" {
			continue
		}
		raw, err := os.ReadFile("../" + name)
		if err != nil || !private.Match(raw) { // an error: listed, but removed here
			continue
		}
		for i, line := range strings.Split(string(raw), "\n") {
			if match := private.FindString(line); match != "" {
				t.Errorf("%s:%d: %q is no reference that a reader can follow", name, i+1, match)
			}
		}
	}
}
