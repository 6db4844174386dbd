//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/belljar/belljar/internal/linux/rundir"
	"github.com/belljar/belljar/test/need"
)

// agentOf returns the process of a sandbox's agent on this machine.
func (s *server) agentOf(sandbox string) int {
	s.t.Helper()
	installation, err := os.ReadFile(filepath.Join(s.data, "installation"))
	if err != nil {
		s.t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(rundir.Default(), "native", strings.TrimSpace(string(installation)), sandbox, "record.json"))
	var record struct {
		Pid int `json:"pid"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &record)
	}
	if err != nil || record.Pid <= 1 {
		s.t.Fatalf("agent of %s: %d, %v", sandbox, record.Pid, err)
	}
	return record.Pid
}

// TestCrash kills the agents of sandboxes, under the server that made them and under the next one. Their sessions are crashed,
// their runs fail for that reason, their scopes are free again, and no sandbox is left.
func TestCrash(t *testing.T) {
	data := t.TempDir()
	s := serve(t, data)
	for _, restarted := range []bool{false, true} {
		scope := map[string]any{"scope": map[string]any{"namespace": "agent", "id": fmt.Sprint(restarted)}}
		status, session := s.ask(http.MethodPost, api+"/sessions/open", scope)
		id, _ := session["session_id"].(string)
		if status/100 != 2 {
			t.Fatalf("open: %d %v", status, session)
		}
		var runs []string
		for _, body := range []map[string]any{
			{"spec_version": "1.0", "session_id": id, "command": []string{"sh", "-c", "echo up; sleep 1000"}, "timeout_sec": longTime}, oneShot("echo up; sleep 1000"),
		} {
			run, ok := s.start("", body)
			if !ok {
				t.Fatal("not started")
			}
			runID, _ := run["id"].(string)
			runs = append(runs, runID)
			until(t, "it runs", func() bool { text, err := s.get(api + "/runs/" + runID + "/logs"); return err == nil && text == "up\n" })
		}
		if restarted {
			s.kill()
			s = serve(t, data)
		}
		for _, sandbox := range []string{id, runs[1]} {
			if err := syscall.Kill(s.agentOf(sandbox), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		for _, runID := range runs {
			frames, err := s.frames(api+"/runs/"+runID+"/logs?format=json&follow=true", nil)
			run, wrong := s.run(runID)
			if err != nil || wrong != "" || run["phase"] != "failed" || run["reason_code"] != "sandbox_died" {
				t.Errorf("restarted %t: %v %s %v\n%v", restarted, err, wrong, run, frames)
			}
		}
		until(t, "the session has crashed", func() bool {
			_, session := s.ask(http.MethodGet, api+"/sessions/"+id, nil)
			return session["state"] == "crashed" && session["message"] != ""
		})
		_, again := s.ask(http.MethodPost, api+"/sessions/open", scope)
		if again["created"] != true || again["session_id"] == id {
			t.Errorf("restarted %t: opened again: %v", restarted, again)
		}
		if status, answer := s.ask(http.MethodDelete, api+"/sessions/"+fmt.Sprint(again["session_id"]), nil); status != http.StatusNoContent {
			t.Errorf("delete: %d %v", status, answer)
		}
	}
	if code := s.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)
}

// TestMemoryHogInASession makes a command use up its session's memory, under the server that made it and under the next one:
// it fails for that reason, others do not, and the session lives.
func TestMemoryHogInASession(t *testing.T) {
	data := t.TempDir()
	s := serve(t, data)
	_, session := s.ask(http.MethodPost, api+"/sessions", map[string]any{
		"spec_version": "1.0", "base_image": "host", "resources": map[string]any{"memory_mb": 48},
	})
	id, _ := session["session_id"].(string)
	run := func(line string) map[string]any {
		run, ok := s.start("?wait=600s", map[string]any{"spec_version": "1.0", "session_id": id, "command": []string{"sh", "-c", line}, "timeout_sec": 600})
		if !ok {
			t.Fatal("not started")
		}
		return run
	}
	if enforced, _ := session["limits_enforced"].(map[string]any); enforced["memory"] == nil {
		need.Missing(t, "a limit on memory: %v", session)
	}
	for range 2 {
		if got := run("head -c 200m /dev/zero | tail"); got["phase"] != "failed" && got["warnings"] == nil {
			t.Errorf("a hog behind a pipe: %v", got)
		}
		if got := run("exec tail /dev/zero"); got["reason_code"] != "oom_killed" {
			t.Errorf("a hog: %v", got)
		}
		if got := run("exit 1"); got["reason_code"] != "nonzero_exit" {
			t.Errorf("another: %v", got)
		}
		s.kill()
		s = serve(t, data)
	}
	if status, answer := s.ask(http.MethodDelete, api+"/sessions/"+id, nil); status != http.StatusNoContent {
		t.Errorf("delete: %d %v", status, answer)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)
}
