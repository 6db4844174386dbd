// Package transcript plays the conversations in a package's testdata, which are txtar archives.
package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// Each runs a test for each archive in testdata, with its parts.
func Each(t *testing.T, play func(t *testing.T, parts []txtar.File)) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts: ", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			talk, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			play(t, talk.Files)
		})
	}
}

// Pattern compares JSON with that of a transcript, which prose may follow. In the transcript, "*" is any value, "-" an absent one, and a text that begins
// with ~ is a regular expression for a text.
type Pattern struct {
	// Exact forbids properties that the transcript does not name.
	Exact bool
	// Keep gets the values for which the transcript has "=name"; nil if it has none.
	Keep map[string]string
}

// Differs returns the first place where got does not match the transcript; "" if there is none.
func (p Pattern) Differs(got, want []byte) string {
	var g, w any
	if err := json.NewDecoder(bytes.NewReader(want)).Decode(&w); err != nil {
		return "the transcript has no JSON: " + err.Error()
	}
	if err := json.Unmarshal(got, &g); err != nil {
		return "it is no JSON: " + err.Error()
	}
	return p.differs(g, w, "")
}

func (p Pattern) differs(got, want any, at string) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, want an object", at, got)
		}
		for name, value := range w {
			if _, there := g[name]; there == (value == "-") {
				return fmt.Sprintf("%s.%s is there: %t", at, name, there)
			} else if !there {
				continue
			}
			if why := p.differs(g[name], value, at+"."+name); why != "" {
				return why
			}
		}
		if p.Exact && len(g) != len(w) {
			return fmt.Sprintf("%s has other properties: %v", at, got)
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("%s is %v, want %d elements", at, got, len(w))
		}
		for i := range w {
			if why := p.differs(g[i], w[i], fmt.Sprintf("%s[%d]", at, i)); why != "" {
				return why
			}
		}
		return ""
	case string:
		if w == "*" {
			return ""
		}
		if name, ok := strings.CutPrefix(w, "="); ok && p.Keep != nil {
			p.Keep[name] = fmt.Sprint(got)
			return ""
		}
		if expression, ok := strings.CutPrefix(w, "~"); ok {
			if text, ok := got.(string); !ok || !regexp.MustCompile(expression).MatchString(text) {
				return fmt.Sprintf("%s is %v, and does not match %s", at, got, expression)
			}
			return ""
		}
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Sprintf("%s is %v, want %v", at, got, want)
	}
	return ""
}
