//go:build linux

package mcp_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/mcp"
	"github.com/belljar/belljar/internal/service"
)

// decide decides about the only waiting request.
func decide(t *testing.T, w *world, d belljar.ApprovalDecision) {
	t.Helper()
	admin := w.service.As(belljar.Caller{ID: "op", Role: belljar.RoleAdmin}).Admin()
	var id string
	until(t, "a request waits", func() bool {
		page, err := admin.Approvals(t.Context(), belljar.ApprovalQuery{State: belljar.ApprovalPending})
		if err != nil || len(page.Items) > 1 {
			t.Fatal(page, err)
		}
		if len(page.Items) == 1 {
			id = page.Items[0].ID
		}
		return id != ""
	})
	if _, err := admin.Decide(t.Context(), id, d); err != nil {
		t.Fatal(err)
	}
}

// A call whose run waits for an operator reports this while it waits, and its result has the operator's
// comment.
func TestApproval(t *testing.T) {
	w := newWorld(t, func(o *service.Options) {
		o.Policy = service.DefaultPolicy()
		o.Policy.Approval = []string{"timeout_sec>600"}
	})
	p := w.peer("ann", mcp.Terms{Toolset: belljar.Toolset{Mode: belljar.ToolsCompute, TimeoutSec: 900}})
	ask := func() int {
		return p.ask("tools/call", map[string]any{
			"name": "sandbox_run", "arguments": map[string]any{"runtime": "bash", "code": "echo went"}, "_meta": map[string]any{"progressToken": "tok"},
		})
	}
	id := ask()
	for message := ""; !strings.Contains(message, "waiting for an operator's approval"); {
		n := p.next()
		if n.Method != "notifications/progress" {
			t.Fatalf("%s", n.raw)
		}
		message, _ = n.Params["message"].(string)
	}
	decide(t, w, belljar.ApprovalDecision{Decision: belljar.DecisionApprove})
	if r := p.answer(id).tool(t).good(t); !strings.Contains(r.text, "went") {
		t.Error(r.text)
	}
	id = ask()
	decide(t, w, belljar.ApprovalDecision{Decision: belljar.DecisionDeny, Note: "not today"})
	r := p.answer(id).tool(t)
	if r.refused(t, "policy_denied (op denied it: not today)"); strings.Contains(r.text, "went") || r.data["run_id"] == nil {
		t.Errorf("%s, %v", r.text, r.data)
	}
}

// A sandbox that waits for an operator is opened once it is approved.
func TestApprovalOfASandbox(t *testing.T) {
	w := newWorld(t, func(o *service.Options) {
		o.Policy = service.DefaultPolicy()
		o.Policy.Approval = []string{"timeout_sec>600"}
	})
	p := w.peer("ann", mcp.Terms{Toolset: belljar.Toolset{Mode: belljar.ToolsCode, TimeoutSec: 900}})
	id := p.ask("tools/call", map[string]any{"name": "sandbox_open", "arguments": map[string]any{}, "_meta": map[string]any{"progressToken": "tok"}})
	if n := p.next(); !strings.Contains(n.Params["message"].(string), "waiting for an operator's approval") {
		t.Errorf("%s", n.raw)
	}
	decide(t, w, belljar.ApprovalDecision{Decision: belljar.DecisionApprove})
	p.answer(id).tool(t).good(t)
	id = p.ask("tools/call", map[string]any{"name": "sandbox_open", "arguments": map[string]any{"session_key": "other"}})
	until(t, "the other sandbox waits", func() bool { return len(w.sessions("ann")) == 2 })
	waiting := 0
	for _, s := range w.sessions("ann") {
		if s.State != belljar.SessionStarting {
			continue
		}
		waiting++
		r := p.exec(s.ID, "true")
		if r.refused(t, "waits for an operator's approval"); strings.Contains(r.text, "deleted") {
			t.Errorf("a sandbox that is not made yet: %s", r.text)
		}
	}
	if waiting != 1 {
		t.Errorf("%d sandboxes wait", waiting)
	}
	decide(t, w, belljar.ApprovalDecision{Decision: belljar.DecisionDeny, Note: "one is enough"})
	p.answer(id).tool(t).refused(t, "op denied it: one is enough")
}

// A second sandbox_open for an isolated sandbox that still waits for an operator waits, too.
func TestApprovalOfAnIsolatedSandbox(t *testing.T) {
	w := newWorld(t, func(o *service.Options) {
		o.Policy = service.DefaultPolicy()
		o.Policy.Approval = []string{"timeout_sec>600"}
	})
	p := w.peer("ann", mcp.Terms{Toolset: belljar.Toolset{Session: belljar.IsolatedKey, Mode: belljar.ToolsCode, TimeoutSec: 900}})
	var ids []int
	for range 2 {
		ids = append(ids, p.ask("tools/call", map[string]any{"name": "sandbox_open", "arguments": map[string]any{}, "_meta": map[string]any{"progressToken": len(ids)}}))
		if n := p.next(); !strings.Contains(fmt.Sprint(n.Params["message"]), "waiting for an operator's approval") {
			t.Fatalf("%s", n.raw)
		}
	}
	decide(t, w, belljar.ApprovalDecision{Decision: belljar.DecisionApprove})
	first, second := p.answer(ids[0]).tool(t).good(t), p.answer(ids[1]).tool(t).good(t)
	if first.data["created"] != true || second.data["created"] != false || first.data["sandbox_id"] != second.data["sandbox_id"] {
		t.Errorf("%s; %s", first.text, second.text)
	}
}

// An operator's rule can be faster than the answer: a sandbox that is already denied does not count as new.
func TestDeniedAtOnce(t *testing.T) {
	w := newWorld(t, func(o *service.Options) {
		o.Policy = service.DefaultPolicy()
		o.Policy.Approval = []string{"timeout_sec>600"}
	})
	w.opened = func(s belljar.Session) belljar.Session {
		decide(t, w, belljar.ApprovalDecision{Decision: belljar.DecisionDeny, Note: "no more"})
		until(t, "the session ends", func() bool {
			got, err := w.as("ann").Sessions().Get(t.Context(), s.ID)
			s = got
			return err == nil && s.State.Ended()
		})
		return s
	}
	p := w.peer("ann", mcp.Terms{Toolset: belljar.Toolset{Mode: belljar.ToolsCode, TimeoutSec: 900}})
	p.tool("sandbox_open", map[string]any{}).refused(t, "op denied it: no more")
}

// A result about a command that waits for an operator says that it has not started, and why.
func TestApprovalOfACommand(t *testing.T) {
	w := newWorld(t, func(o *service.Options) {
		o.Policy = service.DefaultPolicy()
		o.Policy.Approval = []string{"timeout_sec>600"}
	})
	p := w.peer("ann", mcp.Terms{Toolset: belljar.Toolset{Mode: belljar.ToolsCode}, Wait: time.Millisecond})
	sandbox := p.open()
	waits := func(tool string, status any, arguments map[string]any) result {
		t.Helper()
		arguments["sandbox_id"] = sandbox
		if tool == "sandbox.run" {
			delete(arguments, "sandbox_id")
		}
		r := p.tool(tool, arguments).good(t)
		if !strings.Contains(r.text, "has not started: it waits for an operator's approval (timeout_sec>600: 900), until 2") ||
			!strings.Contains(r.text, "Wait for it with sandbox_exec_wait.") || r.data["status"] != status {
			t.Errorf("%s: %s, %v", tool, r.text, r.data)
		}
		return r
	}
	deny := belljar.ApprovalDecision{Decision: belljar.DecisionDeny, Note: "not today"}
	ended := func(id any) {
		t.Helper()
		decide(t, w, deny)
		until(t, "it ends", func() bool { return phase(t, w, "ann", id.(string)).Terminal() })
	}
	id := waits("sandbox_exec", "running", map[string]any{"cmd": []string{"true"}, "timeout_seconds": 900}).data["exec_id"]
	waits("sandbox_exec_wait", nil, map[string]any{"exec_id": id})
	waits("sandbox_exec_read", nil, map[string]any{"exec_id": id})
	ended(id)
	if r := p.tool("sandbox_exec_read", map[string]any{"sandbox_id": sandbox, "exec_id": id}).good(t); !strings.Contains(r.text, "op denied it: not today") {
		t.Error(r.text)
	}
	ended(waits("sandbox_code", "running", map[string]any{"code": "1", "timeout_seconds": 900}).data["exec_id"])
	ended(waits("sandbox.run", nil, map[string]any{"session_id": sandbox, "command": []string{"true"}, "timeout_sec": 900}).data["run_id"])
}
