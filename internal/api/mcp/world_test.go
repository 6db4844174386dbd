//go:build linux

package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/mcp"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/test/apitest"
)

// patience bounds every wait of a test.
const patience = 2 * time.Minute

// world is the door over the real service and the fake runtime.
type world struct {
	t       *testing.T
	runtime *fake.Runtime
	service *service.Service
	kit     *mcp.Kit
	opened  func(belljar.Session) belljar.Session // if set, changes the session that the service returns to the door
	down    *atomic.Bool                          // if set and true, the door cannot read runs
}

// hooked is a service with the world's opened.
type hooked struct {
	belljar.Service
	opened func(belljar.Session) belljar.Session
}

func (h hooked) Sessions() belljar.Sessions { return hookedSessions{h.Service.Sessions(), h.opened} }

type hookedSessions struct {
	belljar.Sessions
	opened func(belljar.Session) belljar.Session
}

func (h hookedSessions) Open(ctx context.Context, r belljar.SessionRequest) (belljar.Session, bool, error) {
	s, created, err := h.Sessions.Open(ctx, r)
	return h.opened(s), created, err
}

// flaky is a service whose runs cannot be read while it is down.
type flaky struct {
	belljar.Service
	down *atomic.Bool
}

func (f flaky) Runs() belljar.Runs { return flakyRuns{f.Service.Runs(), f.down} }

type flakyRuns struct {
	belljar.Runs
	down *atomic.Bool
}

func (f flakyRuns) Get(ctx context.Context, id string) (belljar.Run, error) {
	if f.down.Load() {
		return belljar.Run{}, &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "the server starts again"}
	}
	return f.Runs.Get(ctx, id)
}

func newWorld(t *testing.T, change ...func(*service.Options)) *world {
	t.Helper()
	in := apitest.NewWorld(t, []string{"memory"}, append(change, func(o *service.Options) { o.Concurrency = -1 })...)
	kit := mcp.New(mcp.Options{Version: "test", Runtimes: []string{"native", "docker"}, Drain: 100 * time.Millisecond})
	return &world{t: t, runtime: in.Runtime, service: in.Service, kit: kit}
}

func (w *world) as(user string) belljar.Service {
	return w.service.As(belljar.Caller{ID: user, Role: belljar.RoleUser})
}

// sessions returns the sessions of a user that have not ended.
func (w *world) sessions(user string) []belljar.Session {
	w.t.Helper()
	page, err := w.as(user).Sessions().List(context.Background(), belljar.SessionQuery{})
	if err != nil {
		w.t.Fatal(err)
	}
	return page.Items
}

// until waits until a condition is true.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !so() {
		if time.Now().After(deadline) {
			t.Fatalf("never so: %s", what)
		}
		time.Sleep(5 * time.Millisecond) // polls the condition
	}
}

// reply is an answer, or a notification.
type reply struct {
	ID     any             `json:"id"`
	Method string          `json:"method"`
	Params map[string]any  `json:"params"`
	Result map[string]any  `json:"result"`
	Error  *rpcError       `json:"error"`
	raw    json.RawMessage // all of it
}

type rpcError struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    map[string]any `json:"data"`
}

// result is the result of a tool call.
type result struct {
	text  string // of the first part
	parts []map[string]any
	data  map[string]any // structured
	bad   bool
}

func (r reply) tool(t *testing.T) result {
	t.Helper()
	if r.Error != nil {
		t.Fatalf("the call failed: %+v", r.Error)
	}
	var out result
	list, _ := r.Result["content"].([]any)
	for _, p := range list {
		out.parts = append(out.parts, p.(map[string]any))
	}
	if len(out.parts) > 0 {
		out.text, _ = out.parts[0]["text"].(string)
	}
	out.data, _ = r.Result["structuredContent"].(map[string]any)
	out.bad, _ = r.Result["isError"].(bool)
	return out
}

// good returns the result of a call that must have succeeded.
func (r result) good(t *testing.T) result {
	t.Helper()
	if r.bad {
		t.Fatalf("the call failed: %s", r.text)
	}
	return r
}

// refused checks that a call failed, and that its error contains these words.
func (r result) refused(t *testing.T, words ...string) {
	t.Helper()
	if !r.bad {
		t.Errorf("the call went through: %s %v", r.text, r.data)
	}
	for _, word := range words {
		if !strings.Contains(r.text, word) {
			t.Errorf("the error is\n%s\nand does not say %q", r.text, word)
		}
	}
}

// client is a test client on one of the transports.
type client interface {
	send(message map[string]any)
	next() reply // the next message of the server
	close()
}

// peer is an initialized client.
type peer struct {
	t *testing.T
	client
	last  int
	notes []reply // notifications so far
}

// initialize initializes a client.
func initialize(t *testing.T, c client, name string) *peer {
	t.Helper()
	return initializeAs(t, c, name, "2025-11-25")
}

// initializeAs initializes a client of a version of the protocol.
func initializeAs(t *testing.T, c client, name, version string) *peer {
	t.Helper()
	p := &peer{t: t, client: c}
	t.Cleanup(c.close)
	r := p.rpc("initialize", map[string]any{
		"protocolVersion": version, "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": name, "version": "1"},
	})
	if r.Error != nil {
		t.Fatalf("initialize: %+v", r.Error)
	}
	p.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	return p
}

// ask sends a request and returns its id.
func (p *peer) ask(method string, params map[string]any) int {
	p.last++
	p.send(map[string]any{"jsonrpc": "2.0", "id": p.last, "method": method, "params": params})
	return p.last
}

// answer waits for the answer to a request. Answers may come in any order.
func (p *peer) answer(id int) reply {
	p.t.Helper()
	is := func(r reply) bool {
		n, ok := r.ID.(float64)
		return ok && int(n) == id && r.Method == ""
	}
	if i := slices.IndexFunc(p.notes, is); i >= 0 {
		r := p.notes[i]
		p.notes = slices.Delete(p.notes, i, i+1)
		return r
	}
	for {
		r := p.next()
		if is(r) {
			return r
		}
		p.notes = append(p.notes, r)
	}
}

func (p *peer) rpc(method string, params map[string]any) reply {
	p.t.Helper()
	return p.answer(p.ask(method, params))
}

func (p *peer) tool(name string, arguments map[string]any) result {
	p.t.Helper()
	return p.rpc("tools/call", map[string]any{"name": name, "arguments": arguments}).tool(p.t)
}

// open opens the sandbox.
func (p *peer) open() string {
	p.t.Helper()
	return p.tool("sandbox_open", map[string]any{}).good(p.t).data["sandbox_id"].(string)
}

func (p *peer) exec(sandbox string, cmd ...string) result {
	p.t.Helper()
	return p.tool("sandbox_exec", map[string]any{"sandbox_id": sandbox, "cmd": cmd})
}

// lines is a client on pipes.
type lines struct {
	t    *testing.T
	out  io.WriteCloser
	mine *os.File
	in   *bufio.Reader
	done chan error // of Serve
	once sync.Once
	err  error
}

// served returns the service for a user's client.
func (w *world) served(user string) belljar.Service {
	if w.down != nil {
		return flaky{w.as(user), w.down}
	}
	if w.opened == nil {
		return w.as(user)
	}
	return hooked{w.as(user), w.opened}
}

// stdio serves a client on pipes.
func (w *world) stdio(user string, terms mcp.Terms) *lines {
	theirs, ours, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	mine, yours, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	l := &lines{t: w.t, out: ours, mine: mine, in: bufio.NewReaderSize(mine, 1<<20), done: make(chan error, 1)}
	go func() {
		err := w.kit.Serve(context.Background(), mcp.Client{Service: func(string, string) belljar.Service { return w.served(user) }, Terms: terms}, theirs, yours)
		yours.Close()
		theirs.Close()
		l.done <- err
	}()
	return l
}

// peer returns an initialized client on pipes.
func (w *world) peer(user string, terms mcp.Terms) *peer {
	w.t.Helper()
	return initialize(w.t, w.stdio(user, terms), "tests")
}

func (l *lines) line(text string) {
	l.t.Helper()
	if _, err := io.WriteString(l.out, text+"\n"); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lines) send(message map[string]any) {
	l.t.Helper()
	raw, err := json.Marshal(message)
	if err != nil {
		l.t.Fatal(err)
	}
	l.line(string(raw))
}

func (l *lines) next() reply {
	l.t.Helper()
	if err := l.mine.SetReadDeadline(time.Now().Add(patience)); err != nil {
		l.t.Fatal(err)
	}
	raw, err := l.in.ReadBytes('\n')
	if err != nil {
		l.t.Fatalf("the server ended, or does not answer: %v", err)
	}
	return parse(l.t, raw)
}

func parse(t *testing.T, raw []byte) reply {
	t.Helper()
	var r reply
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatalf("%v in %.200s", err, raw)
	}
	r.raw = raw
	return r
}

// close ends the input and waits until the server has removed everything.
// end ends the input, and returns what the server returns.
func (l *lines) end() error {
	l.once.Do(func() {
		l.out.Close()
		go func() { // no client reads what is still sent
			_, _ = io.Copy(io.Discard, l.in)
			l.mine.Close()
		}()
		select {
		case l.err = <-l.done:
		case <-time.After(patience):
			l.err = errors.New("the server does not end")
		}
	})
	return l.err
}

// close is end for a client without open calls.
func (l *lines) close() {
	if err := l.end(); err != nil && belljar.CodeOf(err) != belljar.CodeTimeout {
		l.t.Error(err)
	}
}
