//go:build linux

package e2e

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar/test/tier"
)

// TestFullWorkspace fills a workspace with bytes, and with files.
func TestFullWorkspace(t *testing.T) {
	s := serve(t, t.TempDir(), "--set", "rate_limit_per_min=0", "--set", "rate_limit_per_address=0")
	w := s.workspace(map[string]any{"resources": map[string]any{"workspace_mb": 4}})
	w.must("write", map[string]any{"path": "kept", "contents": "before"})
	full := func(what string, status int, answer map[string]any) {
		t.Helper()
		e, _ := answer["error"].(map[string]any)
		details, _ := e["details"].(map[string]any)
		if status != http.StatusInsufficientStorage || e["code"] != "disk_full" || details["scope"] != "workspace" || e["hint"] == nil {
			t.Errorf("%s: %d %v", what, status, answer)
		}
		if got := w.must("read", map[string]any{"path": "kept"})["contents"]; got != "before" {
			t.Errorf("%s: the old file reads %v", what, got)
		}
	}
	if status, header, body := w.raw("PUT", "raw", "large", "", strings.Repeat("x", 4<<20+1)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a file that is larger than the workspace: %d %v %s", status, header, body)
	}
	if status, _, body := w.raw("PUT", "raw", "half", "", strings.Repeat("x", 3<<20)); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	status, header, body := w.raw("PUT", "raw", "kept", "&overwrite=true", strings.Repeat("x", 2<<20))
	full("PUT", status, decoded(t, header, body))
	w.program("cat /dev/zero >rest 2>/dev/null || true")
	status, answer := w.fs("write", map[string]any{"path": "kept", "contents": strings.Repeat("x", 100_000), "overwrite": true})
	full("write", status, answer)
	status, answer = w.fs("batch", map[string]any{"overwrite": true, "files": []any{
		map[string]any{"path": "kept", "contents": "after"}, map[string]any{"path": "other", "contents": strings.Repeat("x", 100_000)}}})
	full("batch", status, answer)
	space := w.space()
	if space["max_bytes"].(float64) != 4<<20 || space["bytes"].(float64) < 4<<20-100_000 {
		t.Errorf("%v", space)
	}
	w.must("delete", map[string]any{"path": "rest"})
	w.program("mkdir many; cd many; seq 70000 | xargs touch 2>/dev/null || true")
	status, answer = w.fs("write", map[string]any{"path": "one-more", "contents": "x"})
	full("one file more", status, answer)
	status, answer = w.fs("mkdir", map[string]any{"path": "folder"})
	full("one folder more", status, answer)
	list := w.must("list", map[string]any{"path": "many", "limit": 10})
	if list["truncated"] != true || len(list["entries"].([]any)) != 10 {
		t.Errorf("%v", list)
	}
	found := w.must("search", map[string]any{"name": "6999*"})
	if len(found["matches"].([]any)) > 100 {
		t.Errorf("%d matches", len(found["matches"].([]any)))
	}
	w.must("delete", map[string]any{"path": "many", "recursive": true})
	if space := w.space(); space["files"].(float64) > 10 {
		t.Errorf("after the deletion: %v", space)
	}
	w.must("write", map[string]any{"path": "kept", "contents": "after", "overwrite": true})
}

func (w *workspace) space() map[string]any {
	w.t.Helper()
	status, space := w.ask("GET", api+"/sessions/"+w.id+"/fs/space", nil)
	if status != http.StatusOK {
		w.t.Fatalf("%d %v", status, space)
	}
	return space
}

// TestHostileTrees lists trees that are made to exhaust the reader: very deep, very wide, and always changing.
func TestHostileTrees(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), "--set", "rate_limit_per_min=0", "--set", "rate_limit_per_address=0")
	w := s.workspace(nil)
	w.program(`python3 - <<'EOF'
import os
os.mkdir('deep'); os.chdir('deep')
for i in range(3000):
    os.mkdir('d' * (200 if i % 100 == 0 else 1)); os.chdir('d' * (200 if i % 100 == 0 else 1))
open('bottom', 'w').write('needle')
os.chdir('/workspace')
os.mkdir('wide')
for i in range(12000):
    open('wide/f%05d' % i, 'w').write('hay\n' if i != 11579 else 'hay\nneedle\n')
with open('line', 'w') as f:
    for i in range(64): f.write('x' * (1 << 20))
    f.write('\nneedle\n')
os.mkdir('sparse')
for i in range(5): open('sparse/%d' % i, 'w').truncate(200 << 20)
EOF`)
	list := w.must("list", map[string]any{"recursive": true, "limit": 10000})
	if list["truncated"] != true || len(list["entries"].([]any)) != 10000 {
		t.Errorf("%d entries, truncated %v", len(list["entries"].([]any)), list["truncated"])
	}
	if list = w.must("list", map[string]any{"path": "deep", "recursive": true}); list["truncated"] != true || len(list["entries"].([]any)) != 255 {
		t.Errorf("%d entries of the deep one, truncated %v", len(list["entries"].([]any)), list["truncated"])
	}
	// A search of everything takes at most five seconds, and reports that it is incomplete. How much it covers depends on
	// the machine.
	begun := time.Now()
	found := w.must("search", map[string]any{"content": "needle"})
	if took := time.Since(begun); took > patience || found["truncated"] != true {
		t.Errorf("the search took %v, truncated %v", took, found["truncated"])
	}
	until(t, "a search in the wide one finds", func() bool {
		found = w.must("search", map[string]any{"path": "wide", "name": "f115*", "content": "needle"})
		return strings.Contains(fmt.Sprint(found["matches"]), "wide/f11579")
	})
	for _, path := range []string{"deep", "sparse"} {
		if n, err := w.broken(path); err == nil {
			t.Errorf("an archive of the %s one is whole, with %d bytes", path, n)
		}
	}
	if status, _, packed := w.raw("GET", "archive", "wide", "&format=zip", ""); status != http.StatusOK {
		t.Errorf("an archive of the wide one: %d", status)
	} else if z, err := zip.NewReader(strings.NewReader(packed), int64(len(packed))); err != nil || len(z.File) != 12000 {
		t.Errorf("a zip of %d bytes: %v", len(packed), err)
	}
	// The sandbox still works.
	w.must("delete", map[string]any{"path": "deep", "recursive": true})
	w.must("delete", map[string]any{"path": "sparse", "recursive": true})
	run := w.made("/runs", s.Key, "run_id", map[string]any{
		"spec_version": "1.0", "session_id": w.id, "timeout_sec": longTime, "command": []string{"/bin/bash", "-c", `
			while [ ! -e stop ]; do mkdir -p wide/n/m 2>/dev/null; : >wide/n/m/$RANDOM; : >wide/$RANDOM; done 2>/dev/null; true`},
	})
	for range 5 {
		status, answer := w.fs("delete", map[string]any{"path": "wide", "recursive": true})
		if code := codeOf(answer); status != http.StatusOK && code != "conflict" && code != "not_found" {
			t.Errorf("delete what is written to: %d %v", status, answer)
		}
	}
	w.must("write", map[string]any{"path": "stop", "contents": ""})
	s.ask("GET", api+"/runs/"+run+"/logs?follow=true", nil)
	w.fs("delete", map[string]any{"path": "wide", "recursive": true})
	if got := w.program("ls -A"); strings.TrimSpace(got) != ".tmp\nline\nstop" && strings.TrimSpace(got) != "line\nstop" {
		t.Errorf("left: %q", got)
	}
}

// broken requests an archive that cannot be complete: the server reports that, or cuts the stream.
func (w *workspace) broken(path string) (int64, error) {
	req, err := http.NewRequestWithContext(w.t.Context(), "GET", w.URL+api+"/sessions/"+w.id+"/fs/archive?path="+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", w.Key)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusRequestEntityTooLarge {
		return 0, errors.New("too large")
	}
	return io.Copy(io.Discard, resp.Body)
}

// TestFilesAtOnce runs a hundred file operations concurrently.
func TestFilesAtOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), "--set", "rate_limit_per_min=0", "--set", "rate_limit_per_address=0")
	w := s.workspace(nil)
	var all sync.WaitGroup
	for g := range 100 {
		all.Go(func() {
			path := fmt.Sprintf("d%d/f", g%7)
			for i := range tier.Pick(2, 5) {
				text := fmt.Sprint(g, i)
				for op, body := range map[string]map[string]any{
					"write": {"path": fmt.Sprintf("%s%d", path, g), "contents": text, "overwrite": true}, "list": {"recursive": true}, "search": {"name": "f*"},
				} {
					if op == "search" && i > 0 {
						continue
					}
					if status, answer := w.fs(op, body); status != http.StatusOK && codeOf(answer) != "rate_limited" {
						t.Errorf("%s: %d %v", op, status, answer)
					}
				}
				if status, answer := w.fs("read", map[string]any{"path": fmt.Sprintf("%s%d", path, g)}); status != http.StatusOK || answer["contents"] != text {
					t.Errorf("read: %d %v", status, answer)
				}
			}
		})
	}
	all.Wait()
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	for i := range 4 {
		all.Go(func() {
			name := fmt.Sprint("big", i)
			if status, _, body := w.raw("PUT", "raw", name, "", string(big)); status != http.StatusOK {
				t.Errorf("%d %s", status, body)
			}
			if status, _, body := w.raw("GET", "raw", name, "", ""); status != http.StatusOK || body != string(big) {
				t.Errorf("%d, %d bytes", status, len(body))
			}
		})
	}
	all.Wait()
}
