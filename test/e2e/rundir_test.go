//go:build linux

package e2e

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/linux/rundir"
)

// TestDamagedSandboxFiles damages the run folder of living sandboxes while no server runs. Sessions whose sandboxes cannot be
// found are reported as lost, their scopes are free, others continue, and nothing is left.
func TestDamagedSandboxFiles(t *testing.T) {
	data := t.TempDir()
	s := serve(t, data, "--set", "pool_size=2")
	raw, err := os.ReadFile(filepath.Join(data, "installation"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(rundir.Default(), "native", strings.TrimSpace(string(raw)))
	open := func(name string) (string, bool) {
		t.Helper()
		status, session := s.ask(http.MethodPost, api+"/sessions/open", map[string]any{"scope": map[string]any{"namespace": "agent", "id": name}})
		if status/100 != 2 {
			t.Fatalf("open %s: %d %v", name, status, session)
		}
		id, _ := session["session_id"].(string)
		return id, session["created"] == true
	}
	damage := map[string]func(id string) error{
		"no record":    func(id string) error { return os.Remove(filepath.Join(dir, id, "record.json")) },
		"empty record": func(id string) error { return os.WriteFile(filepath.Join(dir, id, "record.json"), nil, 0o600) },
		"another's": func(id string) error {
			return os.WriteFile(filepath.Join(dir, id, "record.json"), []byte(`{"pid":1,"start_time":1}`), 0o600)
		},
		"no socket": func(id string) error { return os.Remove(filepath.Join(dir, id, "agent.sock")) },
		"no folder": func(id string) error { return os.RemoveAll(filepath.Join(dir, id)) },
		"no lock":   func(id string) error { return os.Remove(filepath.Join(dir, id+".lock")) },
		"no trace": func(id string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, id)), os.Remove(filepath.Join(dir, id+".lock")))
		},
		"well": func(string) error { return nil },
	}
	ids := map[string]string{}
	for name := range damage {
		s.full() // so that it is from the pool, with another name in the cgroups
		ids[name], _ = open(strings.ReplaceAll(name, " ", "-"))
		s.ask(http.MethodPost, api+"/runs", map[string]any{"spec_version": "1.0", "session_id": ids[name], "command": []string{"sleep", "1000"}})
	}
	s.kill()
	for name, spoil := range damage {
		if err := spoil(ids[name]); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	s = serve(t, data, "--set", "pool_size=2")
	for name, id := range ids {
		_, session := s.ask(http.MethodGet, api+"/sessions/"+id, nil)
		want := "lost"
		if name == "well" || name == "no lock" {
			want = "active"
		}
		if session["state"] != want {
			t.Errorf("%s: %v", name, session)
		}
		if again, created := open(strings.ReplaceAll(name, " ", "-")); created != (want == "lost") || created == (again == id) {
			t.Errorf("%s: opened again: %s, %t; it was %s", name, again, created, id)
		}
	}
	if status, answer := s.ask(http.MethodPost, api+"/sessions/close", map[string]any{"key_prefix": "agent:"}); status != http.StatusOK {
		t.Errorf("close: %d %v", status, answer)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)
}
