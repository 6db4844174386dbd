//go:build linux

package mcp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/belljar/belljar/internal/api/mcp"
	"github.com/belljar/belljar/test/transcript"
)

// The transcripts in testdata have a comment, then alternately the lines that a client sends and the expected answers, as
// [transcript.Pattern] defines them.
func TestTranscripts(t *testing.T) {
	transcript.Each(t, func(t *testing.T, parts []txtar.File) {
		w := newWorld(t)
		l := w.stdio("ann", mcp.Terms{Toolset: code().Toolset})
		defer l.close()
		for _, f := range parts {
			for line := range strings.Lines(string(f.Data)) {
				line = strings.TrimSuffix(line, "\n")
				if n, ok := strings.CutPrefix(line, "@long "); ok { // a line of n bytes
					var size int
					if _, err := fmt.Sscan(n, &size); err != nil {
						t.Fatal(err)
					}
					line = strings.Repeat("x", size)
				}
				switch {
				case f.Name == "send":
					l.line(line)
				case strings.TrimSpace(line) == "":
				default:
					raw, err := l.in.ReadBytes('\n')
					if err != nil {
						t.Fatalf("the server ended in place of %s", line)
					}
					if why := (transcript.Pattern{}).Differs(raw, []byte(line)); why != "" {
						t.Errorf("want %s\ngot  %s\n%s", line, raw, why)
					}
				}
			}
		}
	})
}
