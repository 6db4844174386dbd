//go:build linux

package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCopiedDataFolder starts a server on a copy of another's data folder, as an operator does to test a backup. It is refused while
// the original runs, and works with an installation of its own. The original's sessions continue.
func TestCopiedDataFolder(t *testing.T) {
	data, duplicate := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	s := serve(t, data)
	_, session := s.ask(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.1", "base_image": "host"})
	id, _ := session["session_id"].(string)
	if id == "" {
		id, _ = session["id"].(string)
	}
	lives := func(when string) {
		t.Helper()
		run := map[string]any{"spec_version": "1.1", "session_id": id, "command": []string{"true"}}
		if status, answer := s.ask(http.MethodPost, api+"/runs?wait=600s", run); status != http.StatusOK && status != http.StatusCreated || answer["phase"] != "completed" {
			t.Fatalf("%s: %d %v\n%s", when, status, answer, s.output)
		}
	}
	lives("before")
	if err := os.CopyFS(duplicate, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	refused, ready := launch(t, duplicate)
	if err := <-ready; err == nil {
		t.Error("a server serves a copy of a data folder whose server runs")
	} else if <-refused.done; refused.cmd.ProcessState.ExitCode() != 125 || !strings.Contains(refused.output.String(), "is a copy of "+data+",") {
		t.Errorf("ended with %d\n%s", refused.cmd.ProcessState.ExitCode(), refused.output)
	}
	lives("beside a refused copy")
	if err := os.Remove(filepath.Join(duplicate, "installation")); err != nil {
		t.Fatal(err)
	}
	own := serve(t, duplicate)
	if _, got := own.ask(http.MethodGet, api+"/sessions/"+id, nil); got["state"] != "lost" {
		t.Errorf("in the copy: %v", got)
	}
	lives("beside a copy with its own installation")
	if code := own.stop(); code != 0 {
		t.Errorf("the copy ended with %d\n%s", code, own.output)
	}
	s.kill()
	s = serve(t, data)
	lives("after a restart")
}
