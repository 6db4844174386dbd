//go:build linux

package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/belljar/belljar/test/tier"
)

// TestManySessionsOutliveTheServer kills a server with many active sessions. When the next one is ready, the sessions and
// their programs are still there. After their deletion nothing of them is left on this machine.
func TestManySessionsOutliveTheServer(t *testing.T) {
	sessions, runs := tier.Pick(8, 20), 3
	data := t.TempDir()
	args := []string{"--set", "quota_sessions=0", "--set", "max_concurrent_runs=100"}
	s := serve(t, data, args...)
	w := &witness{}
	var makers sync.WaitGroup
	for i := range sessions {
		makers.Go(func() {
			status, session, err := s.try(http.MethodPost, api+"/sessions", map[string]any{
				"spec_version": "1.0", "base_image": "host", "resources": map[string]any{"memory_mb": 64, "workspace_mb": 8},
			})
			if err != nil || status/100 != 2 {
				t.Errorf("make a session: %d %v, %v", status, session, err)
				return
			}
			id, _ := session["session_id"].(string)
			w.mu.Lock()
			w.sessions = append(w.sessions, id)
			w.mu.Unlock()
			for n := range runs {
				marker := fmt.Sprintf("session %d run %d", i, n)
				path, line, ended := "?wait=600s", "echo "+marker, true
				if n > 0 { // active at the end, with children that hide
					path, line, ended = "", "echo "+marker+"; setsid sleep 1000 & sleep 1000", false
				}
				run, ok := s.start(path, map[string]any{
					"spec_version": "1.0", "session_id": id, "command": []string{"sh", "-c", line}, "timeout_sec": longTime,
				})
				if !ok {
					t.Errorf("%s: not started", marker)
					continue
				}
				runID, _ := run["id"].(string)
				w.add(&promise{id: runID, output: marker + "\n", ended: ended})
				if !ended {
					until(t, marker, func() bool { text, err := s.get(api + "/runs/" + runID + "/logs"); return err == nil && text != "" })
				}
			}
		})
	}
	makers.Wait()
	s.kill()

	next := serve(t, data, args...)
	for _, p := range w.promises {
		if run, wrong := next.run(p.id); wrong != "" || !p.ended && run["phase"] != "running" {
			t.Errorf("run %s: %s %v", p.id, wrong, run)
		}
	}
	w.check(next, "the next", nil, w.sessions)
	for _, p := range w.promises {
		p.asked = true // by the end of its session
	}
	w.check(next, "deleted", w.promises, nil)
	if status, answer := next.ask(http.MethodPost, api+"/runs", map[string]any{
		"spec_version": "1.0", "session_id": w.sessions[0], "command": []string{"true"},
	}); status != http.StatusConflict {
		t.Errorf("a run in a session that was deleted: %d %v", status, answer)
	}
	if code := next.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, next.output)
	}
	nothingLeft(t, data)
}
