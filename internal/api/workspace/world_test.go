//go:build linux

package workspace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	door "github.com/belljar/belljar/internal/api/workspace"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/folder"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/workspace"
	"github.com/belljar/belljar/internal/workspace/local"
	"github.com/belljar/belljar/internal/workspace/sandbox"
	"github.com/belljar/belljar/test/apitest"
	"github.com/belljar/belljar/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// patience limits every wait of a test.
const patience = time.Minute

// source makes a source of workspaces for a test. key belongs to a caller who may use it.
type source struct {
	name, key string
	open      func(t *testing.T) workspace.Source
	shared    bool // open returns the same source each time
}

// sources are all sources that one process can have. Every transcript must hold with each.
func sources() []source {
	return []source{
		{name: "sandbox", key: "alice", open: func(t *testing.T) workspace.Source {
			return &sandbox.Source{Engine: apitest.NewWorld(t, nil, unbounded).Service}
		}},
		{name: "local", key: "root", open: func(t *testing.T) workspace.Source {
			dir := filepath.Join(t.TempDir(), "work")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			rt, err := folder.New(dir, filepath.Join(t.TempDir(), "state"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := rt.Close(); err != nil {
					t.Error(err)
				}
			})
			engine := apitest.NewWorld(t, nil, unbounded, func(o *service.Options) { o.Runtimes = []runtime.Runtime{rt} }).Service
			return &local.Source{Engine: engine, Dir: dir}
		}},
		{name: "remote", key: "alice", open: another},
		{name: "sprite", key: "alice", open: spriteWorld},
	}
}

// TestSources runs the tests that must hold with every source. The tests of a source share it, one after the other.
func TestSources(t *testing.T) {
	for _, s := range sources() {
		t.Run(s.name, func(t *testing.T) {
			opened := s.open(t)
			s.open, s.shared = func(*testing.T) workspace.Source { return opened }, true
			t.Run("Transcripts", func(t *testing.T) { transcripts(t, s) })
			t.Run("Traversal", func(t *testing.T) { traversal(t, s) })
			t.Run("HostileRepository", func(t *testing.T) { hostileRepository(t, s) })
			t.Run("BareRepository", func(t *testing.T) { bareRepository(t, s) })
			t.Run("EdgeCases", func(t *testing.T) { edgeCases(t, s) })
		})
	}
}

func unbounded(o *service.Options) { o.MaxSessions = -1 }

// program is a chat's program: it echoes its input, and more.
const program = `
trap 'echo "{\"type\":\"result\",\"subtype\":\"interrupted\"}"; again=1' INT
args=
for a in "$@"; do args="$args${args:+,}\"$a\""; done
echo "{\"type\":\"system\",\"subtype\":\"init\",\"args\":[$args]}"
while again=; IFS= read -r line || [ "$again" ]; do
	case $line in
	*'"ask"'*) echo '{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{}}}' ;;
	*'"noise"'*) echo "no json"; echo trouble >&2 ;;
	*'"bye"'*) exit 3 ;;
	*) printf '{"type":"assistant","got":%s}\n' "$line" ;;
	esac
done
`

func templates(t *testing.T) door.Templates {
	t.Helper()
	raw, err := json.Marshal(map[string]any{
		"shell": map[string]any{"kind": "pty", "command": []string{"/bin/sh"}},
		"claude": map[string]any{
			"kind": "chat", "command": []string{"/bin/sh", "-c", program, "chat"}, "start": []string{"--session-id", "{chat}"}, "resume": []string{"--resume", "{chat}"},
			"parameters": map[string]any{
				"model":               map[string]any{"values": []string{"small", "large"}, "arguments": []string{"--model", "{value}"}},
				"file":                map[string]any{"pattern": "[a-z./]+", "arguments": []string{"--file", "{value}"}},
				"max_turns":           map[string]any{"pattern": "[0-9]{1,3}", "arguments": []string{"--max-turns={value}"}},
				"max_thinking_tokens": map[string]any{"pattern": "[0-9]{1,5}", "arguments": []string{"--thinking={value}"}},
			},
		},
		"broken": map[string]any{"kind": "chat", "command": []string{"/no/such/program"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := door.ParseTemplates(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// world is the door over a source.
type world struct {
	*testing.T
	source workspace.Source
	key    string
	door   *door.Door
	server *httptest.Server

	mu     sync.Mutex
	now    time.Time
	logged bytes.Buffer
	vars   map[string]string
}

func newWorld(t *testing.T, s source, change ...func(*door.Options)) *world {
	t.Helper()
	w := &world{T: t, source: s.open(t), key: s.key, now: time.Now(), vars: map[string]string{}}
	var edge *api.Edge
	o := door.Options{
		Source: w.source, Auth: apitest.Callers(), Sockets: apitest.Callers(), Secret: []byte(strings.Repeat("s", 32)), Templates: templates(t), Version: "test",
		TokenTTL: 30 * time.Minute, ChatLifetime: door.MaxChatLifetime, Bodies: api.JSONShares(), Events: event.Sinks{},
		Secure: func(*http.Request) bool { return false }, Connect: func(*http.Request) error { return nil },
		Origin:        func(r *http.Request) bool { return edge.OriginTrusted(r) },
		OriginAllowed: func(r *http.Request) bool { return edge.OriginAllowed(r) },
		Logger:        slog.New(slog.NewTextHandler(w, nil)), Root: true,
		Now: func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now },
	}
	for _, f := range change {
		f(&o)
	}
	var err error
	if edge, err = api.NewEdge(api.EdgeOptions{Logger: o.Logger}); err != nil {
		t.Fatal(err)
	}
	if w.door, err = door.New(o); err != nil {
		t.Fatal(err)
	}
	if s.shared {
		t.Cleanup(w.clear)
	}
	mux := http.NewServeMux()
	w.door.Register(mux)
	w.server = httptest.NewServer(edge.Wrap(mux))
	t.Cleanup(func() {
		_ = w.door.Close()
		w.server.Client().CloseIdleConnections()
		w.server.Close()
	})
	return w
}

// Write records the log.
func (w *world) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.logged.Write(b)
}

func (w *world) log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.logged.String()
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.Cleanup(cancel)
	return ctx
}

// answer is a status, headers and a body.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request with headers in pairs. An empty key sends none.
func (w *world) ask(key, method, path, body string, header ...string) answer {
	w.Helper()
	r, err := http.NewRequestWithContext(w.context(), method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := w.server.Client().Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(raw)}
}

// open opens the workspace of the world's caller.
func (w *world) open() workspace.Workspace {
	w.Helper()
	caller := apitest.Callers()[w.key]
	got, err := w.source.Open(w.context(), caller, "")
	if err != nil {
		w.Fatal(err)
	}
	return got
}

// clear ends the programs in the workspace and removes its files, for the next world over the same source.
func (w *world) clear() {
	at, ctx := w.open(), w.context()
	files, err := at.Engine.Files().List(ctx, at.Session, belljar.FileQuery{})
	if err != nil {
		w.Fatal(err)
	}
	terminals, err := at.Engine.Terminals().List(ctx, at.Session)
	if err != nil {
		w.Fatal(err)
	}
	runs, err := at.Engine.Runs().List(ctx, belljar.RunQuery{SessionID: at.Session, Phase: belljar.PhaseRunning})
	if err != nil {
		w.Fatal(err)
	}
	for _, t := range terminals {
		if err := at.Engine.Terminals().Close(ctx, t.ID); err != nil && belljar.CodeOf(err) != belljar.CodeNotFound {
			w.Error(err)
		}
	}
	for _, r := range runs.Items {
		if err := at.Engine.Runs().Cancel(ctx, r.ID); err != nil && belljar.CodeOf(err) != belljar.CodeConflict { // it has just ended
			w.Error(err)
		}
		if _, _, err := belljar.Collect(ctx, at.Engine.Runs(), r.ID); err != nil {
			w.Error(err)
		}
	}
	for _, f := range files.Entries {
		if err := at.Engine.Files().Delete(ctx, at.Session, f.Path, true); err != nil {
			w.Error(err)
		}
	}
}

// sh runs a script in the workspace.
func (w *world) sh(script string) string {
	w.Helper()
	at := w.open()
	run, err := at.Engine.Runs().Start(w.context(), belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, SessionID: at.Session, Command: []string{"/bin/sh", "-ec", script},
		Env: map[string]string{"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"},
	}})
	if err != nil {
		w.Fatal(err)
	}
	run, out, err := belljar.Collect(w.context(), at.Engine.Runs(), run.ID)
	if err != nil || run.ExitCode == nil || *run.ExitCode != 0 {
		w.Fatalf("%s\n%v %+v %s%s", script, err, run.ExitCode, out.Stdout, out.Stderr)
	}
	return out.Stdout
}

// dial opens a WebSocket.
func (w *world) dial(key, path string, header ...string) (*websocket.Conn, *http.Response, error) {
	h := http.Header{}
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	conn, resp, err := websocket.Dial(w.context(), w.server.URL+path, &websocket.DialOptions{HTTPHeader: h, HTTPClient: w.server.Client(), Host: h.Get("Host")})
	if err == nil {
		conn.SetReadLimit(16 << 20)
		w.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, resp, err
}

func (w *world) socket(path string) *websocket.Conn {
	w.Helper()
	conn, _, err := w.dial(w.key, path)
	if err != nil {
		w.Fatalf("%s: %v", path, err)
	}
	return conn
}

// next reads a message. At the end it returns the close code.
func (w *world) next(conn *websocket.Conn) (m map[string]any, closed websocket.StatusCode) {
	w.Helper()
	_, raw, err := conn.Read(w.context())
	if err != nil {
		if code := websocket.CloseStatus(err); code != -1 {
			return nil, code
		}
		w.Fatal(err)
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		w.Fatalf("%v in %s", err, raw)
	}
	return m, 0
}

// await reads messages until one is of a type and subtype.
func (w *world) await(conn *websocket.Conn, kind, subtype string) map[string]any {
	w.Helper()
	for {
		m, closed := w.next(conn)
		if closed != 0 {
			w.Fatalf("closed with %d before %s %s", closed, kind, subtype)
		}
		if m["type"] == kind && (subtype == "" || m["subtype"] == subtype) {
			return m
		}
	}
}

// shows reads output of a terminal until it contains a text.
func (w *world) shows(conn *websocket.Conn, text string) {
	w.Helper()
	seen := ""
	defer func() {
		if w.Failed() {
			w.Logf("the terminal printed %q, and not %q", seen, text)
		}
	}()
	for !strings.Contains(seen, text) {
		m, closed := w.next(conn)
		if closed != 0 {
			w.Fatalf("closed with %d after %q, before %q", closed, seen, text)
		}
		if m["type"] == "output" || m["type"] == "history" {
			seen += m["data"].(string)
		}
	}
}

func (w *world) say(conn *websocket.Conn, text string) {
	w.Helper()
	if err := conn.Write(w.context(), websocket.MessageText, []byte(text)); err != nil {
		w.Fatal(err)
	}
}

// ends reads a connection to its end and returns the types of its messages and the close code.
func (w *world) ends(conn *websocket.Conn) (types []string, code websocket.StatusCode) {
	w.Helper()
	for {
		m, closed := w.next(conn)
		if closed != 0 {
			return types, closed
		}
		types = append(types, m["type"].(string))
	}
}
