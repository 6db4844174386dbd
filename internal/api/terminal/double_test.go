package terminal

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/linetest"
	"github.com/belljar/belljar/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// patience limits every wait of a test.
const patience = time.Minute

// engine is a belljar.Engine whose terminals the test controls. Session s1 is ann's and s2 bob's; session full cannot have
// a terminal.
type engine struct {
	mu        sync.Mutex
	terminals map[string]*pty
}

func (e *engine) As(c belljar.Caller) belljar.Service { return service{engine: e, caller: c} }

type service struct {
	belljar.Service
	engine *engine
	caller belljar.Caller
}

func (s service) Terminals() belljar.Terminals { return terminals{service: s} }

type terminals struct {
	belljar.Terminals
	service
}

func notThere() error { return &belljar.Error{Code: belljar.CodeNotFound, Message: "does not exist"} }

func (t terminals) Open(_ context.Context, session string, spec belljar.TerminalSpec) (belljar.Terminal, error) {
	owner := map[string]string{"s1": "ann", "s2": "bob", "full": "ann", "odd": "ann"}[session]
	switch {
	case !t.caller.Sees(owner) || owner == "":
		return belljar.Terminal{}, notThere()
	case session == "full":
		return belljar.Terminal{}, &belljar.Error{Code: belljar.CodeQuotaExceeded, Message: "too many", Details: map[string]any{"limit": 8}, Hint: "close one"}
	case session == "odd":
		return belljar.Terminal{}, fmt.Errorf("the path /secret broke")
	}
	t.engine.mu.Lock()
	defer t.engine.mu.Unlock()
	id := fmt.Sprintf("t%d", len(t.engine.terminals)+1)
	if spec.Cols == 0 {
		spec.Cols, spec.Rows = 80, 24
	}
	p := &pty{owner: owner, changed: make(chan struct{}), state: belljar.Terminal{
		ID: id, SessionID: session, UserID: owner, Name: spec.Name, Command: spec.Command, Shared: spec.Shared, Cols: spec.Cols, Rows: spec.Rows,
	}}
	t.engine.terminals[id] = p
	return p.state, nil
}

func (t terminals) find(id string) (*pty, error) {
	t.engine.mu.Lock()
	defer t.engine.mu.Unlock()
	p := t.engine.terminals[id]
	if p == nil || !t.caller.Sees(p.owner) || p.gone {
		return nil, notThere()
	}
	return p, nil
}

func (t terminals) Get(_ context.Context, id string) (belljar.Terminal, error) {
	p, err := t.find(id)
	if err != nil {
		return belljar.Terminal{}, err
	}
	return p.snapshot(), nil
}

func (t terminals) Attach(_ context.Context, id string) (belljar.Attachment, error) {
	p, err := t.find(id)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	v := &view{pty: p, events: make(chan belljar.TerminalEvent, 100), gone: make(chan struct{})}
	if p.history != "" {
		v.events <- belljar.TerminalEvent{Kind: belljar.TerminalHistory, Data: []byte(p.history)}
	}
	p.view = v
	p.state.Attached++
	return v, nil
}

// pty is a terminal.
type pty struct {
	owner string
	gone  bool // guarded by the engine's lock

	mu      sync.Mutex
	state   belljar.Terminal
	history string
	view    *view // the newest
	typed   string
	stuck   bool // the program does not read
	changed chan struct{}
}

func (p *pty) snapshot() belljar.Terminal {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

func (p *pty) change(f func()) {
	p.mu.Lock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
}

// say sends an event to the last attachment.
func (p *pty) say(e belljar.TerminalEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.history += string(e.Data)
	p.view.events <- e
}

// await waits until a condition of the terminal is true.
func (p *pty) await(t testing.TB, what string, f func() bool) {
	t.Helper()
	late := time.After(patience)
	for {
		p.mu.Lock()
		ok, changed, typed := f(), p.changed, p.typed
		p.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("never %s, typed is %q", what, typed)
		}
	}
}

// view is an attachment.
type view struct {
	pty    *pty
	events chan belljar.TerminalEvent
	ended  bool
	gone   chan struct{}
	once   sync.Once
}

func (v *view) Terminal() belljar.Terminal { return v.pty.snapshot() }

func (v *view) Next(ctx context.Context) (belljar.TerminalEvent, error) {
	if v.ended {
		return belljar.TerminalEvent{}, io.EOF
	}
	select {
	case e := <-v.events:
		v.ended = e.Kind != belljar.TerminalHistory && e.Kind != belljar.TerminalOutput
		return e, nil
	case <-v.gone:
		return belljar.TerminalEvent{}, io.EOF
	case <-ctx.Done():
		return belljar.TerminalEvent{}, context.Cause(ctx)
	}
}

func (v *view) Write(ctx context.Context, b []byte) error {
	v.pty.mu.Lock()
	stuck := v.pty.stuck
	v.pty.mu.Unlock()
	if stuck {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-v.gone:
			return &belljar.Error{Code: belljar.CodeConflict, Message: "left"}
		}
	}
	v.pty.change(func() { v.pty.typed += string(b) })
	return nil
}

func (v *view) Resize(cols, rows int) error {
	if err := belljar.CheckTerminalSize(cols, rows); err != nil {
		return err
	}
	v.pty.change(func() { v.pty.state.Cols, v.pty.state.Rows = cols, rows })
	return nil
}

func (v *view) Close() error {
	v.once.Do(func() {
		close(v.gone)
		v.pty.change(func() { v.pty.state.Attached-- })
	})
	return nil
}

// revocable records the users of requests, whose credentials can then be revoked.
type revocable struct{ uses *api.Uses }

func (a revocable) Authenticate(r *http.Request) (belljar.Caller, error) {
	caller, err := headers{}.Authenticate(r)
	a.uses.Note(r.Context(), a.uses.Revoked(), caller.ID)
	return caller, err
}

// headers authenticates by X-User.
type headers struct{}

func (headers) Authenticate(r *http.Request) (belljar.Caller, error) {
	switch user := r.Header.Get("X-User"); user {
	case "":
		return belljar.Caller{}, &belljar.Error{Code: belljar.CodeUnauthorized, Message: "who are you"}
	case "hasty":
		return belljar.Caller{}, &belljar.Error{Code: belljar.CodeRateLimited, Message: "too many requests"}
	default:
		return belljar.Caller{ID: user, Role: belljar.RoleUser}, nil
	}
}

// bench is a door with a server.
type bench struct {
	t      testing.TB
	engine *engine
	door   *Door
	server *httptest.Server // nil on a line
	client *http.Client     // nil for the default
}

// newBench serves a door on a loopback address.
func newBench(t testing.TB, change ...func(*Options)) *bench {
	t.Helper()
	b, h := newDoor(t, change...)
	b.server = httptest.NewUnstartedServer(h)
	b.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	b.server.Start()
	t.Cleanup(func() {
		_ = b.door.Close()
		b.server.CloseClientConnections()
		b.server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return b
}

// onLine runs a test of the door's timeouts with a fake clock.
func onLine(t *testing.T, change func(*Options), test func(*testing.T, *bench, *linetest.Line)) {
	t.Helper()
	var b *bench
	linetest.Serve(t, func(t *testing.T) (h http.Handler) {
		b, h = newDoor(t, change)
		t.Cleanup(func() { _ = b.door.Close() })
		return h
	}, func(t *testing.T, l *linetest.Line) {
		b.client = l.Client()
		t.Cleanup(b.client.CloseIdleConnections)
		test(t, b, l)
	})
}

// newDoor returns a door and the handler of its server.
func newDoor(t testing.TB, change ...func(*Options)) (*bench, http.Handler) {
	t.Helper()
	b := &bench{t: t, engine: &engine{terminals: map[string]*pty{}}}
	opts := Options{
		Engine: b.engine, Auth: headers{}, Secret: []byte(strings.Repeat("k", 32)),
		OriginAllowed: func(r *http.Request) bool { return r.Header.Get("Origin") != "https://evil.example" },
	}
	for _, f := range change {
		f(&opts)
	}
	var err error
	if b.door, err = New(opts); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	b.door.Register(mux)
	mux.HandleFunc("GET "+api.Prefix+"/sessions/{session_id}/terminals", b.door.New)
	edge, err := api.NewEdge(api.EdgeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return b, edge.Wrap(mux)
}

// at returns the WebSocket URL of a path.
func (b *bench) at(path string) string {
	if b.server == nil {
		return "ws://line" + api.Prefix + path
	}
	return "ws" + strings.TrimPrefix(b.server.URL, "http") + api.Prefix + path
}

func (b *bench) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	b.t.Cleanup(cancel)
	return ctx
}

func (b *bench) dial(path string, header http.Header) (*websocket.Conn, *http.Response, error) {
	conn, answer, err := websocket.Dial(b.context(), b.at(path), &websocket.DialOptions{HTTPHeader: header, HTTPClient: b.client})
	if conn != nil {
		conn.SetReadLimit(4 << 20)
		b.t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, answer, err
}

// open connects as a user.
func (b *bench) open(path, user string) *websocket.Conn {
	b.t.Helper()
	header := http.Header{}
	if user != "" {
		header.Set("X-User", user)
	}
	conn, _, err := b.dial(path, header)
	if err != nil {
		b.t.Fatalf("%s: %v", path, err)
	}
	return conn
}

// pty returns a terminal.
func (b *bench) pty(id string) *pty {
	b.t.Helper()
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	p := b.engine.terminals[id]
	if p == nil {
		b.t.Fatalf("no terminal %s", id)
	}
	return p
}
