//go:build linux

package mcp_test

import (
	"context"
	"net/http"
	"testing"
)

// Copies have the files, belong to the client that made them, and end with that client.
func TestSandboxFork(t *testing.T) {
	w := newWorld(t)
	p := w.peer("ann", code())
	sandbox := p.open()
	p.tool("sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": "f", "contents": "first"}).good(t)
	ids, _ := p.tool("sandbox_fork", map[string]any{"sandbox_id": sandbox, "count": 2}).good(t).data["sandbox_ids"].([]any)
	if len(ids) != 2 || ids[0] == ids[1] || ids[0] == sandbox {
		t.Fatalf("%v", ids)
	}
	p.tool("sandbox_fs_write", map[string]any{"sandbox_id": ids[0], "path": "f", "contents": "second", "overwrite": true}).good(t)
	for _, c := range []struct {
		sandbox any
		want    string
	}{{sandbox, "first"}, {ids[0], "second"}, {ids[1], "first"}} {
		if r := p.tool("sandbox_fs_read", map[string]any{"sandbox_id": c.sandbox, "path": "f"}).good(t); r.data["contents"] != c.want {
			t.Errorf("%v has %v", c.sandbox, r.data)
		}
	}
	other := w.peer("ann", code())
	other.tool("sandbox_fs_read", map[string]any{"sandbox_id": ids[0], "path": "f"}).refused(t, "does not exist")
	other.tool("sandbox_fork", map[string]any{"sandbox_id": sandbox}).refused(t, "does not exist")
	p.tool("sandbox_fork", map[string]any{"sandbox_id": sandbox, "count": 33}).refused(t, "count must be 1 to 32")
	p.tool("sandbox_fork", map[string]any{"sandbox_id": sandbox, "live": true}).refused(t, "live")
	p.tool("sandbox_close", map[string]any{"sandbox_id": ids[1]}).good(t)
	p.close()
	until(t, "the copies end with their client", func() bool { return len(w.sessions("ann")) == 0 })
}

// A copy that a client used after a restart of the server ends with the client, too.
func TestForkRestart(t *testing.T) {
	w := newWorld(t)
	first := w.httpServer(nil)
	p, c := first.peer(t, "ann", "?mode=code")
	ids, _ := p.tool("sandbox_fork", map[string]any{"sandbox_id": p.open()}).good(t).data["sandbox_ids"].([]any)
	if err := first.door.Close(); err != nil {
		t.Fatal(err)
	}
	c.url = w.httpServer(nil).URL + "/mcp"
	p.exec(ids[0].(string), "true").good(t)
	c.do(context.Background(), http.MethodDelete, "", nil).Body.Close()
	if left := w.sessions("ann"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
