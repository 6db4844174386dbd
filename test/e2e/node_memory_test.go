//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/belljar/belljar"
)

// TestNodeMemory makes three sessions fill their workspaces above the limit for all sandboxes. The server, a host process and an
// innocent sandbox survive, and the report of an ended one names the node's memory, not its own limit.
func TestNodeMemory(t *testing.T) {
	neighbour := exec.Command("/bin/sleep", "600")
	neighbour.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := neighbour.Start(); err != nil {
		t.Fatal(err)
	}
	defer neighbour.Wait()
	defer neighbour.Process.Kill()
	s := serve(t, t.TempDir(), "--set", "node_memory_mb=200", "--set", "pool_size=0")
	session := func(workspace int) string {
		t.Helper()
		code, made := s.ask(http.MethodPost, api+"/sessions", map[string]any{
			"spec_version": "1.0", "base_image": "host", "resources": map[string]any{"memory_mb": 64, "workspace_mb": workspace},
		})
		if code != http.StatusOK && code != http.StatusCreated {
			t.Fatalf("%d %v", code, made)
		}
		return made["session_id"].(string)
	}
	run := func(id, script string) map[string]any {
		t.Helper()
		_, run := s.ask(http.MethodPost, api+"/runs?wait=true", map[string]any{
			"spec_version": "1.0", "session_id": id, "command": []string{"/bin/sh", "-c", script}, "timeout_sec": 600,
		})
		return run
	}
	innocent := session(16)
	if r := run(innocent, "head -c 8388608 /dev/zero >kept"); r["phase"] != "completed" {
		t.Fatalf("%v", r)
	}
	greedy := []string{session(150), session(150), session(150)}
	for _, id := range greedy {
		// In parts: a program's limit keeps up with files that fill at full speed only while a processor is free.
		r := run(id, "for i in $(seq 35); do head -c 4194304 /dev/zero >>x || exit; done")
		if reason := r["reason_code"]; r["phase"] != "completed" && reason != "node_out_of_memory" {
			t.Errorf("filling a workspace: %v", r)
		}
	}
	// Above the node's limit one session is ended, immediately or at the next check of the memory.
	until(t, "a session is ended, and says why", func() bool {
		return slices.ContainsFunc(greedy, func(id string) bool {
			_, now := s.ask(http.MethodGet, api+"/sessions/"+id, nil)
			return now["state"] == "crashed" && holds(now, "all sandboxes together had no memory left")
		})
	})
	until(t, "its memory is free, and another is admitted", func() bool {
		code, _ := s.ask(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.0", "base_image": "host"})
		return code < 300
	})
	if r := run(innocent, "test $(stat -c %s kept) = 8388608"); r["phase"] != "completed" {
		t.Errorf("the innocent sandbox: %v", r)
	}
	if err := neighbour.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process of the host: %v", err)
	}
}

// TestMemoryAdmissionByCaps refuses a session, and makes a run wait, that might use more than the remaining memory.
func TestMemoryAdmissionByCaps(t *testing.T) {
	s := serve(t, t.TempDir(), "--set", "node_memory_mb=400", "--set", "memory_admission=caps", "--set", "pool_size=0", "--set", "quota_memory_mb=1000")
	small := map[string]any{"memory_mb": 64, "workspace_mb": 32} // 240 MiB with /tmp and the rest
	request := map[string]any{"spec_version": "1.0", "base_image": "host", "resources": small}
	_, first := s.ask(http.MethodPost, api+"/sessions", request)
	code, second := s.ask(http.MethodPost, api+"/sessions", request)
	if code != http.StatusServiceUnavailable || !holds(second, "node_memory") {
		t.Errorf("a second session: %d %v", code, second)
	}
	request["resources"] = map[string]any{"memory_mb": 300, "workspace_mb": 32}
	if code, r := s.ask(http.MethodPost, api+"/sessions", request); code != http.StatusForbidden || !holds(r, "SANDBOX_NODE_MEMORY_MB") {
		t.Errorf("more than there is in all: %d %v", code, r)
	}
	waits := oneShot("echo ran")
	waits["resources"] = small
	code, run := s.ask(http.MethodPost, api+"/runs", waits)
	id := run["id"].(string)
	if code != http.StatusAccepted || run["phase"] != "queued" || run["estimated_start_time"] == nil {
		t.Errorf("a run that waits for memory: %d %v", code, run)
	}
	if code, _ := s.ask(http.MethodDelete, api+"/sessions/"+first["session_id"].(string), nil); code >= 300 {
		t.Errorf("delete: %d", code)
	}
	if log := s.text(api + "/runs/" + id + "/logs?follow=true"); !strings.Contains(log, "ran") {
		t.Errorf("when there was room: %s", log)
	}
	_, me := s.ask(http.MethodGet, api+"/me", nil)
	if quota := me["quota"].(map[string]any); quota["memory_mb"] != 1000.0 {
		t.Errorf("me: %v", me)
	}
}

// TestHostOutOfMemory runs the machine out of memory, simulated by a cgroup around belljar, while the limits of all sandboxes and
// of this one are not reached: the run's report does not name its own limit.
func TestHostOutOfMemory(t *testing.T) {
	memoryIsHeld(t)
	machine, err := os.MkdirTemp("/sys/fs/cgroup/memory", "belljar-test-machine-")
	if err != nil {
		t.Skip("needs cgroup v1, where the kernel does not count whose limit a kill was for")
	}
	t.Cleanup(func() { // the sandbox's own groups are removed with it
		err := filepath.WalkDir(machine, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				t.Cleanup(func() { os.Remove(path) })
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(machine, "memory.limit_in_bytes"), []byte("250M"), 0); err != nil {
		t.Fatal(err)
	}
	for mb, want := range map[string]belljar.Reason{"512": belljar.ReasonNodeOutOfMemory, "64": belljar.ReasonOOMKilled} {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, machine,
			built.Belljar, "run", "--json", "--quiet", "--memory", mb, "--workspace-exec", "--file", built.Probe+":probe", "--", "./probe", "keep", "400", "true")
		cmd.Env = append(os.Environ(), "SANDBOX_NODE_MEMORY_MB=2000")
		out, err := cmd.Output()
		var got memoryRun
		if json.Unmarshal(out, &got) != nil || got.ReasonCode != want {
			t.Errorf("with %s MiB of its own: %v\n%s", mb, err, out)
		}
	}
}

// holds reports whether a response contains a text.
func holds(answer map[string]any, text string) bool {
	return strings.Contains(fmt.Sprint(answer), text)
}
