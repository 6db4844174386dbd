//go:build linux

package mcp_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/mcp"
)

// waiting returns a command that prints a line, and ends once a file exists.
func waiting() []string {
	return []string{"sh", "-c", "echo begun; until [ -e go ]; do sleep .05; done; echo went"}
}

// begun waits until a user's only active run has printed something, and returns it.
func begun(t *testing.T, w *world, user string) belljar.Run {
	t.Helper()
	var found belljar.Run
	until(t, "a run runs", func() bool {
		page, err := w.as(user).Runs().List(context.Background(), belljar.RunQuery{Phase: belljar.PhaseRunning})
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range page.Items {
			got, err := w.as(user).Runs().Get(context.Background(), run.ID)
			if err == nil && got.LastSeq >= 3 {
				found = got
				return true
			}
		}
		return false
	})
	return found
}

func phase(t *testing.T, w *world, user, id string) belljar.Phase {
	t.Helper()
	run, err := w.as(user).Runs().Get(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return run.Phase
}

// Cancelling a call cancels its run.
func TestCancel(t *testing.T) {
	w := newWorld(t)
	for _, mode := range []belljar.ToolMode{belljar.ToolsCode, belljar.ToolsCompute} {
		for _, token := range []any{nil, "p"} {
			t.Run(fmt.Sprint(mode, token), func(t *testing.T) {
				p := w.peer("ann", mcp.Terms{Toolset: belljar.Toolset{Mode: mode}})
				name, arguments := "sandbox_run", map[string]any{"runtime": "bash", "code": "echo begun; sleep 100"}
				if mode == belljar.ToolsCode {
					name, arguments = "sandbox_exec", map[string]any{"sandbox_id": p.open(), "cmd": waiting()}
				}
				params := map[string]any{"name": name, "arguments": arguments}
				if token != nil {
					params["_meta"] = map[string]any{"progressToken": token}
				}
				id := p.ask("tools/call", params)
				run := begun(t, w, "ann")
				p.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": map[string]any{"requestId": id, "reason": "the user pressed stop"}})
				until(t, "the run is killed", func() bool { return phase(t, w, "ann", run.ID) == belljar.PhaseKilled })
				if r := p.rpc("ping", nil); r.Error != nil {
					t.Errorf("after a cancellation: %s", r.raw)
				}
				p.close()
			})
		}
	}
}

// A client that only stops waiting cancels nothing: its next result reports how to continue.
func TestImpatientClient(t *testing.T) {
	w := newWorld(t)
	p := w.peer("ann", code())
	sandbox := p.open()
	id := p.ask("tools/call", map[string]any{"name": "sandbox_exec", "arguments": map[string]any{"sandbox_id": sandbox, "cmd": waiting()}})
	run := begun(t, w, "ann")
	p.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": map[string]any{"requestId": id, "reason": "McpError: MCP error -32001: Request timed out"}})
	p.answer(id)
	r := p.tool("sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": "go", "contents": ""}).good(t)
	for _, word := range []string{"an earlier call was abandoned", "exec_id " + run.ID, "sandbox_exec_read"} {
		if !strings.Contains(r.text, word) {
			t.Errorf("the next result does not say %q: %s", word, r.text)
		}
	}
	if again := p.tool("sandbox_fs_list", map[string]any{"sandbox_id": sandbox}).good(t); strings.Contains(again.text, run.ID) {
		t.Errorf("it is reported twice: %s", again.text)
	}
	until(t, "the command ends", func() bool {
		return p.tool("sandbox_exec_wait", map[string]any{"sandbox_id": sandbox, "exec_id": run.ID}).good(t).data["done"] == true
	})
	if r := p.tool("sandbox_exec_read", map[string]any{"sandbox_id": sandbox, "exec_id": run.ID}).good(t); !strings.Contains(r.text, "begun\nwent") {
		t.Errorf("it printed %q", r.text)
	}
}

// Results report a detached one-shot run until it has ended, and then its output.
func TestImpatientOneShot(t *testing.T) {
	w := newWorld(t)
	p := w.peer("ann", mcp.Terms{})
	gate := filepath.Join(t.TempDir(), "gate")
	if err := unix.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	id := p.ask("tools/call", map[string]any{"name": "sandbox_run", "arguments": map[string]any{"runtime": "bash", "code": "mkdir output; echo f > output/f; echo begun; read x <" + gate + "; echo went"}})
	run := begun(t, w, "ann")
	p.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": map[string]any{"requestId": id, "reason": "context deadline exceeded"}})
	p.answer(id)
	report := func() string {
		return p.tool("sandbox_run", map[string]any{"runtime": "bash", "code": "true"}).good(t).text
	}
	if text := report(); !strings.Contains(text, run.ID) || strings.Contains(text, "begun\nwent") {
		t.Errorf("while it runs: %s", text)
	}
	if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := belljar.Collect(t.Context(), w.as("ann").Runs(), run.ID); err != nil {
		t.Fatal(err)
	}
	if text := report(); !strings.Contains(text, run.ID) || !strings.Contains(text, "begun\nwent") || !strings.Contains(text, "/artifacts/output/f)") {
		t.Errorf("its end is not reported: %s", text)
	}
	if text := report(); strings.Contains(text, run.ID) {
		t.Errorf("its end is reported twice: %s", text)
	}
}

// A detached run whose state cannot be read for now is reported by a later result.
func TestImpatientUnreadable(t *testing.T) {
	w := newWorld(t)
	w.down = new(atomic.Bool)
	p := w.peer("ann", code())
	sandbox := p.open()
	id := p.ask("tools/call", map[string]any{"name": "sandbox_exec", "arguments": map[string]any{"sandbox_id": sandbox, "cmd": waiting()}})
	run := begun(t, w, "ann")
	p.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": map[string]any{"requestId": id, "reason": "context deadline exceeded"}})
	p.answer(id)
	list := func() string { return p.tool("sandbox_fs_list", map[string]any{"sandbox_id": sandbox}).good(t).text }
	w.down.Store(true)
	if text := list(); strings.Contains(text, run.ID) {
		t.Errorf("while runs cannot be read: %s", text)
	}
	w.down.Store(false)
	if text := list(); !strings.Contains(text, run.ID) {
		t.Errorf("afterwards: %s", text)
	}
}

// A client with a progress token gets notifications about its run: first its id, then its output.
func TestProgress(t *testing.T) {
	w := newWorld(t)
	p := w.peer("ann", code())
	sandbox := p.open()
	id := p.ask("tools/call", map[string]any{
		"name": "sandbox_exec", "arguments": map[string]any{"sandbox_id": sandbox, "cmd": waiting()}, "_meta": map[string]any{"progressToken": "tok"},
	})
	first := p.next()
	if first.Method != "notifications/progress" || first.Params["progressToken"] != "tok" || !strings.HasPrefix(first.Params["message"].(string), "exec ") {
		t.Fatalf("first comes %s", first.raw)
	}
	last, message := first.Params["progress"].(float64), ""
	for message != "begun" {
		n := p.next()
		message = n.Params["message"].(string)
		if now := n.Params["progress"].(float64); now <= last {
			t.Errorf("progress goes from %v to %v", last, now)
		} else {
			last = now
		}
	}
	p.tool("sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": "go", "contents": ""}).good(t)
	_ = id
}

// A subscription does not delay the end: it has no answer before.
func TestEndOfInputWithSubscription(t *testing.T) {
	w := newWorld(t)
	w.kit = mcp.New(mcp.Options{Version: "test", Drain: time.Hour})
	l := w.stdio("ann", mcp.Terms{})
	meta := map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{}}
	l.send(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": map[string]any{
		"_meta": meta, "notifications": map[string]any{"resourcesListChanged": true},
	}})
	if r := l.next(); r.Method != "notifications/subscriptions/acknowledged" {
		t.Fatalf("%s", r.raw)
	}
	l.send(map[string]any{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": map[string]any{
		"_meta": meta, "name": "sandbox_run", "arguments": map[string]any{"runtime": "bash", "code": "echo begun; read x; echo went"},
	}})
	if err := l.end(); err != nil {
		t.Error(err)
	}
}

// The end of the input ends the client's runs and sandboxes, but not those of a workflow.
func TestEndOfInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own := w.peer("ann", code())
	own.ask("tools/call", map[string]any{"name": "sandbox_exec", "arguments": map[string]any{"sandbox_id": own.open(), "cmd": waiting()}})
	run := begun(t, w, "ann")
	if err := own.client.(*lines).end(); belljar.CodeOf(err) != belljar.CodeTimeout || !strings.HasSuffix(err.Error(), ": 1") {
		t.Errorf("the server says nothing of a call without an answer: %v", err)
	}
	if got := phase(t, w, "ann", run.ID); !got.Terminal() {
		t.Errorf("the run is %s", got)
	}
	if left := w.sessions("ann"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	one := w.peer("ann", mcp.Terms{})
	one.ask("tools/call", map[string]any{"name": "sandbox_run", "arguments": map[string]any{"runtime": "bash", "code": "echo begun; sleep 100"}})
	run = begun(t, w, "ann")
	one.close()
	until(t, "the one-shot run ends", func() bool { return phase(t, w, "ann", run.ID).Terminal() })

	shared := w.peer("ann", workflow("w"))
	sandbox := shared.open()
	shared.ask("tools/call", map[string]any{"name": "sandbox_exec", "arguments": map[string]any{"sandbox_id": sandbox, "cmd": waiting()}})
	run = begun(t, w, "ann")
	shared.close()
	if got := phase(t, w, "ann", run.ID); got != belljar.PhaseRunning {
		t.Errorf("the workflow's run is %s", got)
	}
	next := w.peer("ann", workflow("w"))
	next.open()
	next.tool("sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": "go", "contents": ""}).good(t)
	until(t, "the workflow's run ends", func() bool {
		return next.tool("sandbox_exec_wait", map[string]any{"sandbox_id": sandbox, "exec_id": run.ID}).good(t).data["done"] == true
	})
}
