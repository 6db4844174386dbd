//go:build linux

package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestUnservedRuntime takes a runtime out of a server's list while a session with a volume and a run live on it. The next server ends their
// sandboxes, so that both are lost in truth, and the volume is free.
func TestUnservedRuntime(t *testing.T) {
	t.Parallel()
	needDisk(t)
	next := lane{runtime: "gvisor"}.open(t)
	data := t.TempDir()
	s := serve(t, data, "--set", disks)
	if status, answer := s.ask(http.MethodPost, api+"/volumes", object{"name": "kept", "mb": 8}); status/100 != 2 {
		t.Fatalf("volume: %d %v", status, answer)
	}
	status, session := s.withDisk(object{"volume": "kept"})
	id, _ := session["session_id"].(string)
	if status/100 != 2 {
		t.Fatalf("session: %d %v", status, session)
	}
	s.prints(id, nil, "echo mine > file; sync")
	if code := s.stop(); code != 0 {
		t.Fatalf("ended with %d\n%s", code, s.output)
	}
	if devices, _ := images(t, data); len(devices) != 1 {
		t.Fatalf("the sandbox did not outlive its server: %v", devices)
	}
	s = serve(t, data, append(next, "--set", disks, "--set", "runtimes=gvisor", "--set", "log_level=info")...)
	if devices, _ := images(t, data); len(devices) != 0 {
		t.Errorf("still mounted: %v", devices)
	}
	if !strings.Contains(s.output.String(), "removed sandboxes of a runtime that is no longer served") {
		t.Errorf("log:\n%s", s.output)
	}
	s.stateOf(id, "lost")
	if got := s.prints(nil, object{"volume": "kept"}, "cat file; touch more"); got != "mine\n" {
		t.Errorf("the next writer of the volume: %q", got)
	}
	if status, answer := s.ask(http.MethodDelete, api+"/volumes/kept", nil); status != http.StatusNoContent {
		t.Errorf("delete: %d %v", status, answer)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)
}
