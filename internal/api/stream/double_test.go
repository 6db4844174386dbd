package stream

import (
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
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
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// patience bounds every wait of a test. Nothing here takes so long unless it hangs.
const patience = time.Minute

// engine is a belljar.Engine whose runs say what a test tells them to.
type engine struct {
	mu   sync.Mutex
	runs map[string]*run
}

// run is one run of it, and its log.
type run struct {
	mu      sync.Mutex
	state   belljar.Run
	owner   string
	first   uint64 // seq of the first frame retained
	frames  []belljar.Frame
	sealed  bool
	fail    error // ends the log for readers who have read all of it
	changed chan struct{}
	stdin   *stdin
	refuse  error // what Stdin answers
}

func (e *engine) As(c belljar.Caller) belljar.Service { return service{engine: e, caller: c} }

type service struct {
	belljar.Service
	engine *engine
	caller belljar.Caller
}

func (s service) Runs() belljar.Runs { return runs{service: s} }

type runs struct {
	belljar.Runs
	service
}

func (r runs) find(id string) (*run, error) {
	r.engine.mu.Lock()
	defer r.engine.mu.Unlock()
	found, ok := r.engine.runs[id]
	if !ok || !r.caller.Sees(found.owner) {
		return nil, &belljar.Error{Code: belljar.CodeNotFound, Message: fmt.Sprintf("run %q does not exist", id)}
	}
	return found, nil
}

func (r runs) Get(_ context.Context, id string) (belljar.Run, error) {
	found, err := r.find(id)
	if err != nil {
		return belljar.Run{}, err
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	state := found.state
	state.LastSeq = found.last()
	return state, nil
}

func (r runs) Stdin(_ context.Context, id string) (belljar.Stdin, error) {
	found, err := r.find(id)
	if err != nil {
		return nil, err
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	if found.refuse != nil {
		return nil, found.refuse
	}
	found.stdin.mu.Lock()
	found.stdin.holds++
	found.stdin.mu.Unlock()
	return &hold{stdin: found.stdin, gone: make(chan struct{})}, nil
}

func (r runs) Frames(ctx context.Context, id string, from uint64) iter.Seq2[belljar.Frame, error] {
	found, err := r.find(id)
	return func(yield func(belljar.Frame, error) bool) {
		if err != nil {
			yield(belljar.Frame{}, err)
			return
		}
		found.read(ctx, from, yield)
	}
}

func (r *run) last() uint64 { return r.first + uint64(len(r.frames)) - 1 }

func (r *run) read(ctx context.Context, from uint64, yield func(belljar.Frame, error) bool) {
	r.mu.Lock()
	if from == belljar.Tail {
		from = r.last() + 1
	}
	from = max(from, r.first)
	r.mu.Unlock()
	for {
		r.mu.Lock()
		var f belljar.Frame
		has := from <= r.last()
		if has {
			f = r.frames[from-r.first]
		}
		changed, sealed, fail := r.changed, r.sealed, r.fail
		r.mu.Unlock()
		switch {
		case has:
			if !yield(f, nil) {
				return
			}
			from++
		case fail != nil:
			yield(belljar.Frame{}, fail)
			return
		case sealed:
			return
		default:
			select {
			case <-changed:
			case <-ctx.Done():
				yield(belljar.Frame{}, ctx.Err())
				return
			}
		}
	}
}

func (r *run) change(f func()) {
	r.mu.Lock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
}

// say appends frames.
func (r *run) say(frames ...belljar.Frame) {
	r.change(func() {
		for _, f := range frames {
			f.Seq = r.last() + 1
			r.frames = append(r.frames, f)
		}
	})
}

// print appends output.
func (r *run) print(text string) {
	r.say(belljar.Frame{Type: belljar.FrameStdout, Output: []byte(text)})
}

// end ends the run.
func (r *run) end() {
	r.say(belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventEnd, Data: map[string]any{"exit_code": 0}})
	r.change(func() { r.sealed, r.state.Phase = true, belljar.PhaseCompleted })
	r.mu.Lock()
	in := r.stdin
	r.mu.Unlock()
	if in != nil {
		in.close("run_ended")
	}
}

// stdin is the standard input of a run. A program reads it by asking for a frame.
type stdin struct {
	frames chan []byte
	closed chan struct{}
	mu     sync.Mutex
	reason string
	holds  int
}

func newStdin() *stdin { return &stdin{frames: make(chan []byte), closed: make(chan struct{})} }

func (s *stdin) close(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason == "" {
		s.reason = reason
		close(s.closed)
	}
}

// read is what a program does.
func (s *stdin) read(t testing.TB) []byte {
	t.Helper()
	select {
	case b := <-s.frames:
		return b
	case <-time.After(patience):
		t.Fatal("no input for the program")
		return nil
	}
}

type hold struct {
	*stdin
	gone chan struct{}
	once sync.Once
}

func (h *hold) Write(b []byte) (int, error) {
	select {
	case h.frames <- append([]byte(nil), b...):
		return len(b), nil
	case <-h.closed:
	case <-h.gone:
	}
	return 0, &belljar.Error{Code: belljar.CodeConflict, Message: "closed"}
}

func (h *hold) End() error { h.close("client"); return nil }

func (h *hold) Closed() <-chan struct{} { return h.closed }

func (h *hold) Reason() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reason
}

func (h *hold) Close() error {
	h.once.Do(func() {
		close(h.gone)
		h.mu.Lock()
		h.holds--
		h.mu.Unlock()
	})
	return nil
}

// headers authenticates by X-User, and X-Admin.
type headers struct{}

func (headers) Authenticate(r *http.Request) (belljar.Caller, error) {
	user := r.Header.Get("X-User")
	if user == "" {
		return belljar.Caller{}, &belljar.Error{Code: belljar.CodeUnauthorized, Message: "who are you"}
	}
	role := belljar.RoleUser
	if r.Header.Get("X-Admin") != "" {
		role = belljar.RoleAdmin
	}
	return belljar.Caller{ID: user, Role: role}, nil
}

// diary is an event.Sink that tests wait on.
type diary struct {
	mu      sync.Mutex
	events  []event.Event
	changed chan struct{}
}

func (d *diary) Record(e event.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
	close(d.changed)
	d.changed = make(chan struct{})
}

// count is how many events match.
func (d *diary) count(match func(event.Event) bool) (n int, changed chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if match(e) {
			n++
		}
	}
	return n, d.changed
}

// await waits for n events of a name.
func (d *diary) await(t testing.TB, name string, n int) {
	t.Helper()
	late := time.After(patience)
	for {
		got, changed := d.count(func(e event.Event) bool { return e.Name == name })
		if got >= n {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%d %s events, want %d", got, name, n)
		}
	}
}

// reasons lists the reasons of the events of a name.
func (d *diary) reasons(name string) (reasons []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if e.Name == name {
			reasons = append(reasons, e.Reason)
		}
	}
	return reasons
}

// bench is a door on a real server.
type bench struct {
	t      testing.TB
	engine *engine
	door   *Door
	server *httptest.Server // or nil, on a line
	diary  *diary
	client *http.Client // nil for the usual one
}

// newBench serves a door on the loopback.
func newBench(t testing.TB, change ...func(*Options)) *bench {
	t.Helper()
	b, h := newDoor(t, change...)
	b.server = httptest.NewUnstartedServer(h)
	b.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	b.server.Start()
	t.Cleanup(func() {
		b.door.Close()
		b.server.CloseClientConnections()
		b.server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return b
}

// onLine runs a test of a door's clocks, where no machine is slow.
func onLine(t *testing.T, change func(*Options), test func(*testing.T, *bench, *linetest.Line)) {
	t.Helper()
	var b *bench
	linetest.Serve(t, func(t *testing.T) (h http.Handler) {
		b, h = newDoor(t, change)
		t.Cleanup(func() { b.door.Close() })
		return h
	}, func(t *testing.T, l *linetest.Line) {
		b.client = l.Client()
		t.Cleanup(b.client.CloseIdleConnections)
		test(t, b, l)
	})
}

// newDoor makes a door, and the handler of a server with it.
func newDoor(t testing.TB, change ...func(*Options)) (*bench, http.Handler) {
	t.Helper()
	b := &bench{t: t, engine: &engine{runs: map[string]*run{}}, diary: &diary{changed: make(chan struct{})}}
	opts := Options{
		Engine: b.engine, Auth: headers{}, Secret: []byte(strings.Repeat("k", 32)), Events: b.diary,
		Logger: slog.New(slog.DiscardHandler),
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
	edge, err := api.NewEdge(api.EdgeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return b, edge.Wrap(mux)
}

// url is where the server is.
func (b *bench) url() string {
	if b.server == nil {
		return "http://line"
	}
	return b.server.URL
}

// add makes a live run of user "ann".
func (b *bench) add(id string, change ...func(*run)) *run {
	r := &run{
		owner: "ann", first: 1, changed: make(chan struct{}),
		state: belljar.Run{ID: id, Phase: belljar.PhaseRunning, Runtime: "fake"},
	}
	for _, f := range change {
		f(r)
	}
	b.engine.mu.Lock()
	b.engine.runs[id] = r
	b.engine.mu.Unlock()
	return r
}

func interactive(r *run) { r.state.Interactive, r.stdin = true, newStdin() }

func (b *bench) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	b.t.Cleanup(cancel)
	return ctx
}

func (b *bench) path(id, rest string) string { return api.Prefix + "/runs/" + id + "/" + rest }

// as returns the headers of a user.
func as(user string) http.Header { return http.Header{"X-User": {user}} }

// dial opens a run's stream; query is "" or begins with "?".
func (b *bench) dial(id, query string, header http.Header) (*websocket.Conn, *http.Response, error) {
	conn, answer, err := websocket.Dial(b.context(), "ws"+strings.TrimPrefix(b.url(), "http")+b.path(id, "stream")+query,
		&websocket.DialOptions{HTTPHeader: header, HTTPClient: b.client})
	if conn != nil {
		conn.SetReadLimit(1 << 20)
		b.t.Cleanup(func() { conn.CloseNow() })
	}
	return conn, answer, err
}

// open opens a run's stream for ann.
func (b *bench) open(id, query string) *websocket.Conn {
	b.t.Helper()
	conn, _, err := b.dial(id, query, as("ann"))
	if err != nil {
		b.t.Fatal(err)
	}
	return conn
}

// read reads one frame, as it came and decoded.
func (b *bench) read(conn *websocket.Conn) (belljar.Frame, []byte, error) {
	raw, err := b.message(conn)
	if err != nil {
		return belljar.Frame{}, nil, err
	}
	return b.decode(raw), raw, nil
}

// message reads one frame as it came.
func (b *bench) message(conn *websocket.Conn) ([]byte, error) {
	kind, raw, err := conn.Read(b.context())
	if err == nil && kind != websocket.MessageText {
		b.t.Errorf("message of type %v", kind)
	}
	return raw, err
}

func (b *bench) decode(raw []byte) (f belljar.Frame) {
	if err := f.UnmarshalJSON(raw); err != nil || len(raw) > 64<<10 {
		b.t.Errorf("message of %d bytes: %v", len(raw), err)
	}
	return f
}

// want reads messages and compares them with these, as JSON.
func (b *bench) want(conn *websocket.Conn, messages ...string) {
	b.t.Helper()
	for _, want := range messages {
		_, raw, err := b.read(conn)
		if err != nil || string(raw) != want {
			b.t.Fatalf("message %s, %v\nwant    %s", raw, err, want)
		}
	}
}

// wantClose reads the end of a stream.
func (b *bench) wantClose(conn *websocket.Conn, code websocket.StatusCode, reason string) {
	b.t.Helper()
	_, raw, err := b.read(conn)
	if got := (websocket.CloseError{}); !asClose(err, &got) || got.Code != code || !strings.Contains(got.Reason, reason) {
		b.t.Fatalf("message %.200s, %v; want close %d %q", raw, err, code, reason)
	}
}

// drain reads a stream to its end and returns the frames and how it was closed. It looks at them when it has them all: who
// decodes between them is a slow reader on a slow machine.
func (b *bench) drain(conn *websocket.Conn) (frames []belljar.Frame, closed websocket.CloseError) {
	b.t.Helper()
	var messages [][]byte
	for {
		raw, err := b.message(conn)
		if err == nil {
			messages = append(messages, raw)
			continue
		}
		if !asClose(err, &closed) {
			b.t.Fatalf("after %d frames: %v", len(messages), err)
		}
		for _, raw := range messages {
			frames = append(frames, b.decode(raw))
		}
		return frames, closed
	}
}

// get asks for a path and returns status and body.
func (b *bench) get(path string, header http.Header) (*http.Response, string) {
	b.t.Helper()
	return b.do("GET", path, header, "")
}

func (b *bench) do(method, path string, header http.Header, body string) (*http.Response, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.context(), method, b.url()+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer, string(text)
}

// tcp opens a connection that the test speaks on by itself, with little room for what it does not read.
func (b *bench) tcp() *net.TCPConn {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	tcp := conn.(*net.TCPConn)
	if err := tcp.SetReadBuffer(32 << 10); err != nil {
		b.t.Fatal(err)
	}
	if err := tcp.SetDeadline(time.Now().Add(patience)); err != nil {
		b.t.Fatal(err)
	}
	return tcp
}
