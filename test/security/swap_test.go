//go:build linux

package security

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// twins counts files that are swapped for links while they are captured, by what they were found as.
type twins struct{ files, links int }

func (w *twins) found(t *testing.T, name, link, content string) {
	switch {
	case link != "":
		w.links++
	case content == strings.Repeat("honest\n", 1000):
		w.files++
	default:
		t.Errorf("%s holds %.100q", name, content)
	}
}

// swapping puts the run into a session, where its swapper outlives it, captures the swapped files until both kinds were found, and
// reads them from an archive.
func swapping(t *testing.T, tr *trial) func(outcome) {
	s := tr.lane.serving(t)
	var secrets, flags []string // a run in a session takes no secrets
	for pair := range slices.Chunk(tr.flags, 2) {
		if pair[0] == "--secret" {
			secrets = append(secrets, pair...)
		} else {
			flags = append(flags, pair...)
		}
	}
	tr.flags = flags
	end := tr.opens(s, secrets...)
	return func(got outcome) {
		defer end()
		var w twins
		w.captured(t, got, tr.flags[slices.Index(tr.flags, "--out")+1])
		for round := 0; (w.files == 0 || w.links == 0) && round < 100; round++ {
			out := filepath.Join(tr.dir, "again")
			w.captured(t, tr.run(t.Context(), append(tr.command(), "--capture", "**", "--out", out, "--", "true")), out)
			if err := os.RemoveAll(out); err != nil {
				t.Fatal(err)
			}
		}
		if w.files == 0 || w.links == 0 {
			t.Errorf("control: nothing is swapped: %+v", w)
		}
		w.archived(t, s.url+"/api/v1/sandbox/sessions/"+tr.session+"/fs/archive?path=.")
	}
}

// captured counts the twins among a run's artifacts, whose files are in out.
func (w *twins) captured(t *testing.T, got outcome, out string) {
	t.Helper()
	for _, a := range got.Artifacts {
		if !strings.HasPrefix(a.Path, "twin") || a.Skipped != "" {
			continue
		}
		var content []byte
		if a.LinkTarget == "" {
			var err error
			if content, err = os.ReadFile(filepath.Join(out, a.Path)); err != nil {
				t.Error(err)
			}
		}
		w.found(t, a.Path, a.LinkTarget, string(content))
	}
}

// archived counts the twins in an archive.
func (w *twins) archived(t *testing.T, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", readyKey)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	whole := false // the archive of a folder that changes is complete otherwise
	for r := tar.NewReader(answer.Body); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%d: %v", answer.StatusCode, err)
		}
		if name := strings.TrimPrefix(h.Name, "./"); strings.HasPrefix(name, "twin") {
			content, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			w.found(t, "in an archive "+name, h.Linkname, string(content))
		} else if name == "plain" {
			whole = true
		}
	}
	if !whole {
		t.Error("control: the archive lacks the honest file")
	}
}
