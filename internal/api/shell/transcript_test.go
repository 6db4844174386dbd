//go:build linux

package shell_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// TestTranscripts replays the transcripts in testdata: requests of alice, each followed by the expected response: its status
// and JSON that the body must contain. "*" matches any value, and other properties are ignored. $id is the session.
func TestTranscripts(t *testing.T) {
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
			w := newWorld(t)
			id := ""
			for i := 0; i+1 < len(talk.Files); i += 2 {
				line, body, _ := strings.Cut(string(talk.Files[i].Data), "\n")
				method, path, _ := strings.Cut(strings.ReplaceAll(line, "$id", id), " ")
				a := w.send("alice", method, path, body)
				status, want, _ := strings.Cut(string(talk.Files[i+1].Data), "\n")
				if strconv.Itoa(a.status) != strings.TrimSpace(status) {
					t.Fatalf("%s answers %d, want %s: %s", line, a.status, status, a.raw)
				}
				if made, ok := a.body["id"].(string); ok {
					id = made
				}
				if strings.HasPrefix(want, "event") || strings.HasPrefix(want, "id:") {
					want, _, _ = strings.Cut(want, "\n\n") // prose follows
					if !strings.Contains(a.raw, strings.TrimSpace(want)) {
						t.Errorf("%s\n%s\nhas not\n%s", line, a.raw, want)
					}
					continue
				}
				var wanted, got any
				if err := json.NewDecoder(strings.NewReader(strings.ReplaceAll(want, "$id", id))).Decode(&wanted); err != nil {
					t.Fatalf("%s: the transcript's answer: %v", line, err)
				}
				if err := json.Unmarshal([]byte(a.raw), &got); err != nil {
					t.Fatalf("%s: %v in %s", line, err, a.raw)
				}
				if at := differs(got, wanted, ""); at != "" {
					t.Errorf("%s: %s\nin %s", line, at, a.raw)
				}
			}
		})
	}
}

// differs returns where got does not contain want, or "".
func differs(got, want any, at string) string {
	switch w := want.(type) {
	case string:
		if w == "*" {
			return ""
		}
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, want an object", at, got)
		}
		for name, value := range w {
			if _, there := g[name]; !there {
				return fmt.Sprintf("%s.%s is missing", at, name)
			}
			if d := differs(g[name], value, at+"."+name); d != "" {
				return d
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("%s is %v, want %d elements", at, got, len(w))
		}
		for i := range w {
			if d := differs(g[i], w[i], fmt.Sprintf("%s[%d]", at, i)); d != "" {
				return d
			}
		}
		return ""
	}
	if got != want {
		return fmt.Sprintf("%s is %v, want %v", at, got, want)
	}
	return ""
}
