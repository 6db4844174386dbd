//go:build linux

package rest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/rest"
)

// TestWorkflow is the session tools' example: agents share one workspace until the workflow ends.
func TestWorkflow(t *testing.T) {
	b := newEngine(t)
	const open = `{"scope": {"namespace": "workflow", "id": "run_123"}, "workspace_exec": true}`
	var steps [3]rest.OpenedSession
	for i := range steps {
		b.ask(200, "POST", "/sessions/open", "alice", open, &steps[i])
		if steps[i].SandboxID != steps[0].SandboxID || steps[i].SandboxID != steps[i].ID || steps[i].Created != (i == 0) ||
			steps[i].Image != "host" || steps[i].Workdir != "/workspace" {
			t.Errorf("step %d: %+v", i, steps[i])
		}
		var run answer
		b.ask(200, "POST", "/runs?wait=200", "alice", fmt.Sprintf(
			`{"spec_version": "1.0", "session_id": %q, "command": ["/bin/sh", "-c", "echo step >> log; cat log"]}`, steps[i].SandboxID), &run)
		if run.Stdout != strings.Repeat("step\n", i+1) {
			t.Errorf("step %d prints %q", i, run.Stdout)
		}
	}
	var refused refusal
	b.ask(409, "POST", "/sessions", "alice", `{"spec_version": "1.0", "base_image": "host", "scope": {"namespace": "workflow", "id": "run_123"}}`, &refused)
	if refused.Error.Details["session_id"] != steps[0].ID {
		t.Errorf("%+v", refused)
	}
	b.ask(404, "GET", "/sessions/"+steps[0].ID, "bob", "", nil)
	var closed rest.ClosedSessions
	b.ask(200, "POST", "/sessions/close", "bob", `{"key_prefix": "workflow:run_123:"}`, &closed)
	if len(closed.Closed) != 0 {
		t.Errorf("another's: %v", closed)
	}
	b.ask(200, "POST", "/sessions/close", "alice", `{"key_prefix": "workflow:run_123:"}`, &closed)
	if len(closed.Closed) != 1 || closed.Closed[0] != steps[0].ID {
		t.Errorf("%v", closed)
	}
	b.ask(409, "POST", "/runs", "alice", fmt.Sprintf(`{"spec_version": "1.0", "session_id": %q, "command": ["/bin/true"]}`, steps[0].ID), &refused)
	if refused.Error.Code != belljar.CodeConflict || refused.Error.Details["state"] != "closed" || refused.Error.Hint == "" {
		t.Errorf("%+v", refused)
	}
	var next rest.OpenedSession
	b.ask(200, "POST", "/sessions/open", "alice", open, &next)
	if !next.Created || next.ID == steps[0].ID {
		t.Errorf("%+v", next)
	}
}

// A hundred concurrent requests for one scope get one session.
func TestOpenAtOnce(t *testing.T) {
	b := newEngine(t)
	var mu sync.Mutex
	var wait sync.WaitGroup
	ids := map[string]int{}
	for range 32 {
		wait.Go(func() {
			resp := b.send("POST", prefix+"/sessions/open", "alice", nil, `{"scope": {"namespace": "thread", "id": "t"}}`)
			var s rest.OpenedSession
			if got := read(b.t, resp); resp.StatusCode != 200 || json.Unmarshal(got, &s) != nil {
				t.Errorf("%d, %s", resp.StatusCode, got)
			}
			mu.Lock()
			defer mu.Unlock()
			if ids[s.ID]++; s.Created {
				ids["created"]++
			}
		})
	}
	wait.Wait()
	if len(ids) != 2 || ids["created"] != 1 {
		t.Errorf("%v", ids)
	}
}

func TestScopesAreChecked(t *testing.T) {
	b := newEngine(t)
	long := strings.Repeat("k", 10_000)
	for body, field := range map[string]string{
		`{}`:                                   "scope",
		`{"scope": {}}`:                        "scope.namespace",
		`{"scope": {"namespace": "workflow"}}`: "scope.id",
		`{"scope": {"namespace": "workflow", "id": ""}}`:                                     "scope.id",
		`{"scope": {"namespace": "workflow", "id": 7}}`:                                      "scope.id",
		`{"scope": {"namespace": "workflow", "id": "a\u0000b"}}`:                             "scope.id",
		`{"scope": {"namespace": "workflow", "id": "a\nb"}}`:                                 "scope.id",
		`{"scope": {"namespace": "workflow", "id": "` + long + `"}}`:                         "scope.id",
		`{"scope": {"namespace": "workflow", "id": "a", "key": "\u007f"}}`:                   "scope.key",
		`{"scope": {"namespace": "work:flow", "id": "a"}}`:                                   "scope.namespace",
		`{"scope": {"namespace": "` + long + `", "id": "a"}}`:                                "scope.namespace",
		`{"scope": {"namespace": "user", "id": "a"}, "max_runs": -1}`:                        "max_runs",
		`{"scope": {"namespace": "user", "id": "a"}, "max_runs": 1.5}`:                       "max_runs",
		`{"scope": {"namespace": "user", "id": "a"}, "lifetime_sec": -1}`:                    "lifetime_sec",
		`{"scope": {"namespace": "user", "id": "a"}, "idle_timeout": 1}`:                     "idle_timeout",
		`{"scope": {"namespace": "user", "id": "a"}, "spec_version": null, "base_image": 1}`: "base_image",
	} {
		var refused refusal
		b.ask(400, "POST", "/sessions/open", "alice", body, &refused)
		if refused.Error.Code != belljar.CodeInvalidRequest || refused.Error.Details["field"] != field || len(refused.Error.Message) > 600 {
			t.Errorf("%.80s: %+v", body, refused.Error)
		}
	}
	for _, prefix := range []string{``, `workflow`, `:`, `*`, `workflow:\u0000`, `nobody:x:`, `workflow:` + long} {
		var refused refusal
		b.ask(400, "POST", "/sessions/close", "alice", `{"key_prefix": "`+prefix+`"}`, &refused)
		if refused.Error.Details["field"] != "key_prefix" {
			t.Errorf("%.80s: %+v", prefix, refused.Error)
		}
	}
	b.ask(400, "POST", "/sessions/close", "alice", `{"key_prefix": "workflow:", "retain_seconds": -1}`, nil)
	b.ask(403, "POST", "/sessions/close", "alice", `{"key_prefix": "workflow:", "retain_seconds": 1e12}`, nil)
	b.ask(400, "GET", "/sessions?key_prefix=%00", "alice", "", nil)
	b.ask(400, "GET", "/sessions?key_prefix="+long, "alice", "", nil)
	// No session was made. Unusual but valid names work.
	var page belljar.SessionPage
	b.ask(200, "GET", "/sessions?all=true", "alice", "", &page)
	if page.Total != 0 {
		t.Errorf("%+v", page)
	}
	var s rest.OpenedSession
	b.ask(200, "POST", "/sessions/open", "alice", `{"scope": {"namespace": "user", "id": "日本:%3A' --", "key": "../é"}}`, &s)
	b.ask(200, "GET", "/sessions?key_prefix=user:%E6%97%A5%E6%9C%AC%253A%25253A%27%20--:", "alice", "", &page)
	if page.Total != 1 || page.Items[0].ID != s.ID {
		t.Errorf("%+v, want %s", page, s.ScopeKey)
	}
}
