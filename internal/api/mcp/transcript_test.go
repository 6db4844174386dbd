//go:build linux

package mcp_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/belljar/belljar/internal/api/mcp"
)

// The transcripts in testdata have a comment, then by turns the lines that a client sends and the answers that it must get. An
// expected object may leave fields out; an expected text that begins with ~ is a regular expression.
func TestTranscripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t)
			l := w.stdio("ann", mcp.Terms{Toolset: code().Toolset})
			defer l.close()
			for _, f := range archive.Files {
				for line := range strings.Lines(string(f.Data)) {
					line = strings.TrimSuffix(line, "\n")
					if n, ok := strings.CutPrefix(line, "@long "); ok { // a line of so many bytes
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
						var want any
						if err := json.Unmarshal([]byte(line), &want); err != nil {
							t.Fatalf("%v in %s", err, line)
						}
						raw, err := l.in.ReadBytes('\n')
						if err != nil {
							t.Fatalf("the server ended in place of %s", line)
						}
						var got any
						if err := json.Unmarshal(raw, &got); err != nil {
							t.Fatal(err)
						}
						if why := within(want, got, ""); why != "" {
							t.Errorf("want %s\ngot  %s\n%s", line, raw, why)
						}
					}
				}
			}
		})
	}
}

// within returns the place where got differs from want; "" if got has all that want has.
func within(want, got any, at string) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return at + " is no object"
		}
		for name, value := range w {
			if _, has := g[name]; !has {
				return at + "." + name + " is missing"
			}
			if why := within(value, g[name], at+"."+name); why != "" {
				return why
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return at + " is no list of that length"
		}
		for i := range w {
			if why := within(w[i], g[i], fmt.Sprintf("%s[%d]", at, i)); why != "" {
				return why
			}
		}
		return ""
	case string:
		if pattern, ok := strings.CutPrefix(w, "~"); ok {
			if text, ok := got.(string); !ok || !regexp.MustCompile(pattern).MatchString(text) {
				return fmt.Sprintf("%s is %q, and does not match", at, got)
			}
			return ""
		}
	}
	if want != got {
		return fmt.Sprintf("%s is %v, want %v", at, got, want)
	}
	return ""
}
