package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/mcp"
)

// modern sends one request of the protocol without sessions.
func (c *web) modern(method string, params map[string]any) *http.Response {
	c.t.Helper()
	return c.modernUntil(context.Background(), method, params)
}

func (c *web) modernUntil(ctx context.Context, method string, params map[string]any) *http.Response {
	c.t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{},
		"io.modelcontextprotocol/clientInfo": map[string]any{"name": "tests", "version": "1"},
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		c.t.Fatal(err)
	}
	header := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}
	for _, key := range []string{"name", "uri"} {
		if name, ok := params[key].(string); ok {
			header["Mcp-Name"] = name
		}
	}
	return c.do(ctx, http.MethodPost, string(body), header)
}

// once calls a tool.
func (c *web) once(name string, arguments map[string]any) result {
	c.t.Helper()
	body := bodyOf(c.t, c.modern("tools/call", map[string]any{"name": name, "arguments": arguments}))
	_, answer, found := strings.Cut(body, "data: ")
	if !found {
		_, answer, _ = strings.Cut(body, " ")
	}
	return parse(c.t, []byte(strings.TrimSpace(answer))).tool(c.t)
}

// A client without a session finds its sandbox again, also after a restart; others do not.
func TestWithoutSessions(t *testing.T) {
	w := newWorld(t)
	first := w.httpServer(nil)
	ann := first.client(t, "ann", "?mode=code")
	if got := bodyOf(t, ann.modern("server/discover", nil)); !strings.HasPrefix(got, "200") || !strings.Contains(got, `"2026-07-28"`) {
		t.Fatalf("discover: %s", got)
	}
	if got := bodyOf(t, ann.modern("tools/list", nil)); !strings.Contains(got, `"sandbox_exec_wait"`) {
		t.Errorf("the tools are %s", got)
	}
	sandbox := ann.once("sandbox_open", nil).good(t).data["sandbox_id"]
	ann.once("sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": "kept", "contents": "yes"}).good(t)
	cat := map[string]any{"sandbox_id": sandbox, "cmd": []string{"cat", "kept"}}
	if r := ann.once("sandbox_exec", cat).good(t); !strings.Contains(r.text, "yes") {
		t.Errorf("it printed %q", r.text)
	}
	first.client(t, "bob", "?mode=code").once("sandbox_exec", cat).refused(t, "not_found")
	first.client(t, "ann", "?mode=code&language=bash").once("sandbox_exec", cat).refused(t, "not_found")
	if got := bodyOf(t, first.client(t, "", "").modern("tools/list", nil)); !strings.HasPrefix(got, "401") {
		t.Errorf("without a key: %s", got)
	}
	if err := first.door.Close(); err != nil {
		t.Fatal(err)
	}
	late := &manualClock{}
	second := w.httpServer(func(o *mcp.DoorOptions) { o.AfterFunc = late.after })
	ann = second.client(t, "ann", "?mode=code")
	if r := ann.once("sandbox_open", nil).good(t); r.data["sandbox_id"] != sandbox || r.data["created"] != false {
		t.Errorf("after the restart: %v", r.data)
	}
	late.come()
	until(t, "the sandbox goes", func() bool { return len(w.sessions("ann")) == 0 })
}

// A client that disconnects cancels its call: it has no other way.
func TestWithoutSessionsCancelled(t *testing.T) {
	w := newWorld(t)
	c := w.httpServer(nil).client(t, "ann", "")
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		resp := c.modernUntil(ctx, "tools/call", map[string]any{
			"name": "sandbox_run", "arguments": map[string]any{"runtime": "bash", "code": "echo begun; sleep 100"},
		})
		if resp != nil {
			_, _ = io.Copy(io.Discard, resp.Body) // until it leaves
			resp.Body.Close()
		}
	}()
	run := begun(t, w, "ann")
	leave()
	<-gone
	until(t, "the run is cancelled", func() bool { return phase(t, w, "ann", run.ID) == belljar.PhaseKilled })
}

// The first event of a stream has an id, no data and no name.
func TestStreamBegins(t *testing.T) {
	h := newWorld(t).httpServer(nil)
	got := bodyOf(t, h.client(t, "ann", "").post(context.Background(), hello))
	if !strings.HasPrefix(got, "200 id: ") || strings.Contains(got, "prime") {
		t.Errorf("it begins with %.100q", got)
	}
	_, event, _ := strings.Cut(got, "\n")
	if !strings.HasPrefix(event, "data: \n\n") {
		t.Errorf("the first event goes on with %.100q", event)
	}
}

// The code of a resource that does not exist is that of the request's version of the protocol.
func TestCodeOfMissingResource(t *testing.T) {
	w := newWorld(t)
	p := w.peer("ann", mcp.Terms{})
	params := map[string]any{"uri": "belljar://runs/" + belljar.NewID() + "/output"}
	if r := p.rpc("resources/read", params); r.Error == nil || r.Error.Code != -32002 || r.Error.Data["code"] != "not_found" {
		t.Errorf("in a session: %s", r.raw)
	}
	if got := bodyOf(t, w.httpServer(nil).client(t, "ann", "").modern("resources/read", params)); !strings.HasPrefix(got, "400") || !strings.Contains(got, `"code":-32602,`) || !strings.Contains(got, `"not_found"`) {
		t.Errorf("without a session: %s", got)
	}
}
