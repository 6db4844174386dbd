//go:build linux

package mcp_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/mcp"
)

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

func TestHTTP(t *testing.T) {
	w := newWorld(t)
	h := w.httpServer(nil)
	p, c := h.peer(t, "ann", "?mode=code")
	if names, _ := toolNames(t, p); len(names) != 12 {
		t.Errorf("tools: %v", names)
	}
	sandbox := p.open()
	if r := p.exec(sandbox, "echo", "hi").good(t); r.data["stdout"] != "hi\n" {
		t.Errorf("exec: %v", r.data)
	}
	if got := w.sessions("ann"); len(got) != 1 || got[0].Labels["mcp"] == "" {
		t.Errorf("the caller has %v", got)
	}
	resp := c.do(context.Background(), http.MethodDelete, "", nil)
	if got := bodyOf(t, resp); got != "204 " {
		t.Errorf("DELETE: %s", got)
	}
	if left := w.sessions("ann"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		body := ""
		if method == http.MethodPost {
			body = `{"jsonrpc":"2.0","id":9,"method":"ping"}`
		}
		if got := bodyOf(t, c.do(context.Background(), method, body, nil)); !strings.HasPrefix(got, "404") || !strings.Contains(got, "initialize") {
			t.Errorf("%s after the end: %s", method, got)
		}
	}
}

// The door refuses requests without a key, requests for another user's session, and malformed ones.
func TestPlainHTTPRefused(t *testing.T) {
	w := newWorld(t)
	h := w.httpServer(func(o *mcp.DoorOptions) {
		o.OriginAllowed = func(r *http.Request) bool { return r.Header.Get("Origin") == "" }
	})
	p, c := h.peer(t, "ann", "?mode=code")
	sandbox := p.open()
	theirs := h.client(t, "bob", "")
	theirs.session = c.session
	stranger := h.client(t, "", "")
	stranger.session = c.session
	call := `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"sandbox_exec","arguments":{"sandbox_id":"` + sandbox + `","cmd":["true"]}}}`
	new := func(query string) *web { return h.client(t, "ann", query) }
	bg := context.Background()
	// The server reads it to its end, so that a client that is still sending gets the answer.
	oneByteTooMany := `{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"`
	oneByteTooMany += strings.Repeat("x", 16<<20+1-len(oneByteTooMany)-len(`"}}`)) + `"}}`
	for name, x := range map[string]struct {
		resp *http.Response
		want []string
	}{
		"no key":                 {h.client(t, "", "").post(bg, hello), []string{"401", "unauthorized"}},
		"no key, with a session": {stranger.post(bg, call), []string{"401"}},
		"another's session":      {theirs.post(bg, call), []string{"404", "initialize"}},
		"another's stream":       {theirs.do(bg, http.MethodGet, "", nil), []string{"404"}},
		"another's end":          {theirs.do(bg, http.MethodDelete, "", nil), []string{"404"}},
		"a forged session": {func() *http.Response {
			c := new("")
			c.session = theirs.session[:len(theirs.session)-2] + "xx"
			return c.post(bg, call)
		}(), []string{"404"}},
		"no session":       {new("").post(bg, call), []string{"400", "Mcp-Session-Id is missing", "initialize first"}},
		"a foreign page":   {c.do(bg, http.MethodPost, call, map[string]string{"Origin": "https://evil.example"}), []string{"403", "forbidden"}},
		"another method":   {c.do(bg, http.MethodPut, "{}", nil), []string{"405"}},
		"no JSON":          {c.post(bg, "{nope"), []string{"400", `{"error":{"code":-32700,`, `"id":null`}},
		"no params":        {c.post(bg, `{"jsonrpc":"2.0","id":8,"method":"tools/call"}`), []string{"200", `"code":-32600`, "params", `"id":8`}},
		"a bad start":      {new("").post(bg, `{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":5}}`), []string{"200", `"code":-32602`, "params.capabilities", `"id":4`}},
		"a null start":     {new("").post(bg, `{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":null,"clientInfo":null}}`), []string{"200", `"result"`}},
		"a start without":  {new("").post(bg, `{"jsonrpc":"2.0","id":4,"method":"initialize"}`), []string{"200", `"code":-32600`, "params", `"id":4`}},
		"a second start":   {c.post(bg, hello), []string{"200", `"code":-32600`, "duplicate"}},
		"a wrong type":     {c.do(bg, http.MethodPost, call, map[string]string{"Content-Type": "text/plain"}), []string{"415"}},
		"an unknown event": {c.do(bg, http.MethodGet, "", map[string]string{"Last-Event-ID": "nope_3"}), []string{"400"}},
		"an old version":   {c.do(bg, http.MethodPost, call, map[string]string{"Mcp-Protocol-Version": "1999-01-01"}), []string{"400", `"code":-32600`, "Unsupported protocol version", "2025-11-25"}},
		"a new version":    {new("").do(bg, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}), []string{"200", `"sandbox_run"`}},
		"an unknown word":  {new("?mod=code").post(bg, hello), []string{"400", "unknown parameter", "did you mean mode"}},
		"a word twice":     {new("?mode=code&mode=compute").post(bg, hello), []string{"400", "more than once"}},
		"a bad number":     {new("?timeout=soon").post(bg, hello), []string{"400", "timeout"}},
		"a fraction":       {new("?memory_mb=64.5").post(bg, hello), []string{"400", "memory_mb of the URL must be a whole number"}},
		"a huge number":    {new("?max_output=1e300").post(bg, hello), []string{"400", "max_output of the URL must be a whole number"}},
		"a bad isolation":  {new("?isolation=none").post(bg, hello), []string{"400", "isolation", "namespace"}},
		"a bad trust":      {new("?trust=blind").post(bg, hello), []string{"400", "trust_level", "untrusted"}},
		"a bad mode":       {new("?mode=root").post(bg, hello), []string{"400", "compute or code"}},
		"tools of no mode": {new("?tools=sandbox_exec").post(bg, hello), []string{"400", "has no tool"}},
		"a body too large": {c.post(bg, oneByteTooMany), []string{"413", "payload_too_large"}},
		"a strange note":   {c.post(bg, `{"jsonrpc":"2.0","method":"notifications/nope"}`), []string{"202"}},
		"the same id twice": {func() *http.Response {
			c.post(bg, `{"jsonrpc":"2.0","method":"notifications/nope"}`).Body.Close()
			return c.post(bg, `{"jsonrpc":"2.0","id":8,"method":"nope"}`)
		}(), []string{"200", `"code":-32601`, `method \"nope\"`, `"id":8`}},
	} {
		got := bodyOf(t, x.resp)
		for _, word := range x.want {
			if !strings.Contains(got, word) {
				t.Errorf("%s: %.300s does not say %q", name, got, word)
			}
		}
	}
	p.exec(sandbox, "true").good(t)
}

// The URL of a client narrows the server's terms, and cannot widen them.
func TestTermsOfURL(t *testing.T) {
	w := newWorld(t)
	h := w.httpServer(func(o *mcp.DoorOptions) {
		o.Terms = mcp.Terms{Toolset: belljar.Toolset{TimeoutSec: 20, Resources: belljar.Resources{MemoryMB: 128}}}
	})
	for query, word := range map[string]string{"?timeout=30": "timeout is 20 at most", "?memory_mb=1024": "memory_mb is 128 at most"} {
		if got := bodyOf(t, h.client(t, "ann", query).post(context.Background(), hello)); !strings.HasPrefix(got, "403") || !strings.Contains(got, word) {
			t.Errorf("%s: %s", query, got)
		}
	}
	p, _ := h.peer(t, "ann", "?mode=code&timeout=10s&memory_mb=64&workflow=w%201&session=build&language=bash&tools=sandbox_open,sandbox_exec")
	if names, _ := toolNames(t, p); len(names) != 2 {
		t.Errorf("tools: %v", names)
	}
	sandbox := p.open()
	got, err := w.as("ann").Sessions().Get(context.Background(), sandbox)
	if err != nil || got.ScopeKey != "workflow:w 1:build" || got.Limits.MemoryMB != 64 || got.Limits.TimeoutSec != 10 {
		t.Errorf("the session is %+v, %v", got, err)
	}
	p.tool("sandbox_exec", map[string]any{"sandbox_id": sandbox, "cmd": []string{"true"}, "timeout_seconds": 15}).refused(t, "10 seconds at most")
	usual, _ := h.peer(t, "ann", "?mode=code&workflow=w%201&session=default")
	if s := usual.tool("sandbox_open", map[string]any{"session_key": "build"}).good(t); s.data["sandbox_id"] != sandbox {
		t.Errorf("the default session forbids other names: %v", s.data)
	}
	if got, err := w.as("ann").Sessions().Get(context.Background(), usual.open()); err != nil || got.ScopeKey != "workflow:w 1:default" {
		t.Errorf("the default session is %+v, %v", got, err)
	}
	compute := w.httpServer(func(o *mcp.DoorOptions) { o.Terms.Mode = belljar.ToolsCompute })
	if got := bodyOf(t, compute.client(t, "ann", "?mode=code").post(context.Background(), hello)); !strings.HasPrefix(got, "403") {
		t.Errorf("code where there is compute only: %s", got)
	}
}

// A client whose connection breaks during an answer resumes without a gap.
func TestResume(t *testing.T) {
	w := newWorld(t)
	p, c := w.httpServer(nil).peer(t, "ann", "?mode=code")
	sandbox := p.open()
	id := p.last + 1
	ctx, hangUp := context.WithCancel(context.Background())
	defer hangUp()
	resp := c.post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"sandbox_exec","_meta":{"progressToken":1},"arguments":{"sandbox_id":"%s","cmd":["sh","-c","echo begun; until [ -e go ]; do sleep .05; done; echo went"]}}}`, id, sandbox))
	c.events = nil
	seen := make(chan struct{})
	go func() { // it reads the first event, and then no more
		defer close(seen)
		c.first(resp)
	}()
	<-seen
	first := p.next()
	if first.Method != "notifications/progress" {
		t.Fatalf("first comes %s", first.raw)
	}
	p.last++
	p.tool("sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": "go", "contents": ""}).good(t)
	// The server has not noticed that the connection is dead: the new one replaces it.
	back := c.do(c.ctx, http.MethodGet, "", map[string]string{"Last-Event-ID": c.firstEvent()})
	c.open.Add(1)
	go func() {
		defer c.open.Done()
		defer back.Body.Close()
		c.follow(back)
	}()
	if r := p.answer(id).tool(t).good(t); r.data["stdout"] != "begun\nwent\n" {
		t.Errorf("the answer is %v", r.data)
	}
}

// A finished answer stays for its client, however large the answers to other users are.
func TestResumeAfterLargeAnswers(t *testing.T) {
	w := newWorld(t)
	h := w.httpServer(nil)
	p, c := h.peer(t, "bob", "?mode=code")
	p.exec(p.open(), "echo", "done").good(t)
	c.mu.Lock()
	last := c.events[len(c.events)-1]
	c.mu.Unlock()
	_, other := h.peer(t, "ann", "")
	if err := h.door.FillEvents(t.Context(), other.session); err != nil {
		t.Fatal(err)
	}
	stream, _, _ := strings.Cut(last, "_")
	if got := bodyOf(t, c.do(t.Context(), http.MethodGet, "", map[string]string{"Last-Event-ID": stream + "_0"})); !strings.HasPrefix(got, "200") || !strings.Contains(got, "done") {
		t.Errorf("the answer is %.300s", got)
	}
}

// When the idle time of a client that disappeared is over, its run and its sandbox are removed.
func TestClientDisappears(t *testing.T) {
	w := newWorld(t)
	late := &manualClock{}
	h := w.httpServer(func(o *mcp.DoorOptions) { o.AfterFunc = late.after })
	p, c := h.peer(t, "ann", "?mode=code")
	stream := c.do(c.ctx, http.MethodGet, "", nil)
	sandbox := p.open()
	late.come() // an open stream keeps the session, however long
	p.exec(sandbox, "true").good(t)
	p.ask("tools/call", map[string]any{"name": "sandbox_exec", "arguments": map[string]any{"sandbox_id": sandbox, "cmd": waiting()}})
	run := begun(t, w, "ann")
	late.come() // so does a call
	c.close()
	stream.Body.Close()
	until(t, "the run ends", func() bool { late.come(); return phase(t, w, "ann", run.ID).Terminal() })
	until(t, "the sandbox is gone", func() bool { return len(w.sessions("ann")) == 0 })
	until(t, "nothing runs", func() bool {
		left, err := w.runtime.List(context.Background())
		return err == nil && len(left) == 0
	})
	if got := bodyOf(t, c.do(context.Background(), http.MethodPost, `{"jsonrpc":"2.0","id":9,"method":"ping"}`, nil)); !strings.HasPrefix(got, "404") {
		t.Errorf("coming back too late: %s", got)
	}
}

// A restarted server resumes the sessions of its clients.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	first := w.httpServer(nil)
	p, c := first.peer(t, "ann", "?mode=code")
	sandbox := p.open()
	p.tool("sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": "kept", "contents": "yes"}).good(t)
	exec := p.tool("sandbox_exec", map[string]any{"sandbox_id": sandbox, "cmd": []string{"sh", "-c", "sleep .3; cat kept"}, "stream": true}).good(t).data["exec_id"]
	if err := first.door.Close(); err != nil {
		t.Fatal(err)
	}
	if got := bodyOf(t, withoutSession(c, first.URL).post(context.Background(), hello)); !strings.HasPrefix(got, "503") {
		t.Errorf("a stopping server accepts a client: %s", got)
	}
	second := w.httpServer(nil)
	c.url = second.URL + "/mcp"
	if r := p.tool("sandbox_open", map[string]any{}).good(t); r.data["sandbox_id"] != sandbox || r.data["created"] != false {
		t.Fatalf("after the restart: %v", r.data)
	}
	until(t, "the exec ends", func() bool {
		return p.tool("sandbox_exec_wait", map[string]any{"sandbox_id": sandbox, "exec_id": exec}).good(t).data["done"] == true
	})
	if r := p.tool("sandbox_exec_read", map[string]any{"sandbox_id": sandbox, "exec_id": exec}).good(t); !strings.Contains(r.text, "yes") {
		t.Errorf("it printed %q", r.text)
	}
	theirs := second.client(t, "bob", "")
	theirs.session = c.session
	if got := bodyOf(t, theirs.post(context.Background(), `{"jsonrpc":"2.0","id":9,"method":"ping"}`)); !strings.HasPrefix(got, "404") {
		t.Errorf("another takes the session up: %s", got)
	}
	c.do(context.Background(), http.MethodDelete, "", nil).Body.Close()
	if left := w.sessions("ann"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	if got := bodyOf(t, c.post(context.Background(), `{"jsonrpc":"2.0","id":9,"method":"ping"}`)); !strings.HasPrefix(got, "404") {
		t.Errorf("it is taken up after its end: %s", got)
	}
}

// Requests that reach a restarted server at once all find the session of their client.
func TestRestartRequestsAtOnce(t *testing.T) {
	w := newWorld(t)
	first := w.httpServer(nil)
	_, c := first.peer(t, "ann", "?mode=code")
	for range 30 {
		if err := first.door.Close(); err != nil {
			t.Fatal(err)
		}
		first = w.httpServer(nil)
		c.url = first.URL + "/mcp"
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				if got := bodyOf(t, c.post(context.Background(), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, i))); !strings.HasPrefix(got, "200") {
					t.Errorf("request %d: %s", i, got)
				}
			})
		}
		all.Wait()
	}
}

// A session that has ended is never resumed, however many end after it. The sessions of other users are resumed.
func TestRestartManyEnded(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":9,"method":"ping"}`
	w := newWorld(t)
	first := w.httpServer(nil)
	_, ended := first.peer(t, "ann", "")
	_, late := first.peer(t, "ann", "")
	_, theirs := first.peer(t, "bob", "")
	if err := first.door.Close(); err != nil {
		t.Fatal(err)
	}
	second := w.httpServer(nil)
	ended.url, late.url, theirs.url = second.URL+"/mcp", second.URL+"/mcp", second.URL+"/mcp"
	if got := bodyOf(t, ended.do(t.Context(), http.MethodDelete, "", nil)); !strings.HasPrefix(got, "204") {
		t.Fatalf("the end of a resumed session: %s", got)
	}
	second.door.FillEnded("ann")
	_, other := second.peer(t, "ann", "")
	other.do(t.Context(), http.MethodDelete, "", nil).Body.Close()
	if got := bodyOf(t, ended.post(t.Context(), ping)); !strings.HasPrefix(got, "404") {
		t.Errorf("it is resumed after its end: %s", got)
	}
	if got := bodyOf(t, late.post(t.Context(), ping)); !strings.HasPrefix(got, "404") {
		t.Errorf("it is resumed, although its end could not be remembered: %s", got)
	}
	second.peer(t, "ann", "")
	if got := bodyOf(t, theirs.post(t.Context(), ping)); !strings.HasPrefix(got, "200") {
		t.Errorf("the session of another user is not resumed: %s", got)
	}
}

// withoutSession returns a client like c without its session, for another server.
func withoutSession(c *web, url string) *web {
	return &web{t: c.t, url: url + "/mcp", key: c.key, got: make(chan reply, 10)}
}

// A user with too many sessions loses the one that is idle longest.
func TestTooManyVisits(t *testing.T) {
	w := newWorld(t)
	h := w.httpServer(func(o *mcp.DoorOptions) { o.MaxSessions = 2 })
	a, ca := h.peer(t, "ann", "?mode=code")
	a.open()
	until(t, "the first is idle", func() bool { ca.open.Wait(); return true })
	for range 2 {
		p, _ := h.peer(t, "ann", "?mode=code")
		p.rpc("ping", nil)
	}
	bob, _ := h.peer(t, "bob", "")
	bob.rpc("ping", nil)
	if got := bodyOf(t, ca.do(context.Background(), http.MethodPost, `{"jsonrpc":"2.0","id":9,"method":"ping"}`, nil)); !strings.HasPrefix(got, "404") {
		t.Errorf("the idlest lives on: %s", got)
	}
	until(t, "its sandbox is gone", func() bool { return len(w.sessions("ann")) == 0 })
}

// manualClock is a clock whose timers fire when the test calls come.
type manualClock struct {
	mu  sync.Mutex
	due []func()
}

func (l *manualClock) after(_ time.Duration, f func()) func() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := len(l.due)
	l.due = append(l.due, f)
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.due[at] = nil
		return true
	}
}

// come fires all timers.
func (l *manualClock) come() {
	l.mu.Lock()
	due := slices.Clone(l.due)
	l.mu.Unlock()
	for _, f := range due {
		if f != nil {
			f()
		}
	}
}
