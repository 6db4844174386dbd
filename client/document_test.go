package client_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocuments checks that the Go code in the documents is that of the examples, which are tested.
func TestDocuments(t *testing.T) {
	files, err := filepath.Glob("example*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var examples string
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		examples += flush(string(raw))
	}
	for _, name := range []string{"../docs/client.md", "../docs/agentfile.md"} {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		blocks := strings.Split(string(raw), "```go\n")[1:]
		if len(blocks) == 0 {
			t.Errorf("%s has no Go", name)
		}
		for _, block := range blocks {
			block, _, _ = strings.Cut(block, "```")
			for piece := range strings.SplitSeq(flush(block), "…\n") {
				if !strings.Contains(examples, piece) {
					t.Errorf("%s: this is in no example:\n%s", name, piece)
				}
			}
		}
	}
}

// flush removes the indentation of a text.
func flush(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(line, " \t"))
	}
	return b.String()
}
