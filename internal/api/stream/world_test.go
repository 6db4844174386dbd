package stream

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/linetest"
)

// bench is a door on a real server.
type bench struct {
	t      testing.TB
	engine *engine
	door   *Door
	server *httptest.Server // or nil, on a line
	diary  *diary
	client *http.Client // nil for the default
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

// onLine runs a test of a door's timeouts on a simulated clock.
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

// newDoor makes a door, and an HTTP handler that serves it.
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

// url returns the address of the server.
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

// read reads one frame, and returns it decoded and raw.
func (b *bench) read(conn *websocket.Conn) (belljar.Frame, []byte, error) {
	raw, err := b.message(conn)
	if err != nil {
		return belljar.Frame{}, nil, err
	}
	return b.decode(raw), raw, nil
}

// message reads one raw frame.
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

// drain reads a stream to its end and returns the frames and the close. It decodes the frames at the end: decoding in between
// would make the reader slow on a slow machine.
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

// get requests a path and returns status and body.
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
	maps.Copy(req.Header, header)
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

// tcp opens a connection with a small receive buffer, on which the test writes the protocol itself.
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
