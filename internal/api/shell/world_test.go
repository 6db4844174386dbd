//go:build linux

package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/shell"
	"github.com/belljar/belljar/internal/blob/spool"
	logs "github.com/belljar/belljar/internal/logbook/memory"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service"
	records "github.com/belljar/belljar/internal/store/memory"
	"github.com/belljar/belljar/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// world is the door over the real service and the fake runtime.
type world struct {
	*testing.T
	url    string
	engine belljar.Engine
	client *http.Client
}

// keys knows callers by their key.
type keys map[string]belljar.Caller

func (k keys) Authenticate(r *http.Request) (belljar.Caller, error) {
	given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if c, ok := k[given]; ok && bearer {
		return c, nil
	}
	return belljar.Caller{}, &belljar.Error{Code: belljar.CodeUnauthorized, Message: "no key of this server"}
}

func newWorld(t *testing.T, change ...func(*service.Options)) *world {
	t.Helper()
	dir := t.TempDir()
	rt := fake.New(fake.Options{Dir: dir})
	o := service.Options{
		Runtimes: []runtime.Runtime{rt}, Store: records.New(), Logs: logs.New(), Blobs: &spool.Store{Dir: dir},
		Limits: belljar.Limits{NProc: 4096, StartupTimeoutSec: 300, TimeoutSec: 300, GraceSec: 0.2}, Require: []string{}, TempDir: dir, MaxSessions: -1,
	}
	for _, c := range change {
		c(&o)
	}
	s, err := service.New(o)
	if err != nil {
		t.Fatal(err)
	}
	door, err := shell.New(shell.Options{
		Engine: s, Auth: keys{"alice": {ID: "alice", Role: belljar.RoleUser}, "bob": {ID: "bob", Role: belljar.RoleUser}},
	})
	if err != nil {
		t.Fatal(err)
	}
	edge, err := api.NewEdge(api.EdgeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	door.Register(mux)
	server := httptest.NewServer(edge.Wrap(mux))
	w := &world{T: t, engine: s, url: server.URL, client: server.Client()}
	t.Cleanup(func() {
		w.client.CloseIdleConnections()
		server.Close()
		err := s.Close()
		left, listed := rt.List(context.Background())
		if err := errors.Join(err, listed); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return w
}

// answer is a status and a body.
type answer struct {
	status int
	header http.Header
	raw    string
	body   map[string]any
}

// code is that of an error's envelope.
func (a answer) code() string {
	e, _ := a.body["error"].(map[string]any)
	code, _ := e["code"].(string)
	return code
}

// detail is one of an error's.
func (a answer) detail(name string) any {
	e, _ := a.body["error"].(map[string]any)
	details, _ := e["details"].(map[string]any)
	return details[name]
}

func (w *world) request(key, method, path, body string, header ...string) *http.Request {
	w.Helper()
	req, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

func (w *world) send(key, method, path, body string, header ...string) answer {
	w.Helper()
	resp, err := w.client.Do(w.request(key, method, path, body, header...))
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, raw: string(raw)}
	_ = json.Unmarshal(raw, &a.body) // a list is no object
	return a
}

// ask is a request of alice's that must be answered with a status.
func (w *world) ask(status int, method, path, body string, header ...string) answer {
	w.Helper()
	a := w.send("alice", method, path, body, header...)
	if a.status != status {
		w.Fatalf("%s %s %.200s answers %d, want %d: %.500s", method, path, body, a.status, status, a.raw)
	}
	return a
}

// open makes a session and returns its path.
func (w *world) open() string {
	w.Helper()
	a := w.ask(201, "POST", "/v1/sessions", "{}")
	return "/v1/sessions/" + a.body["id"].(string)
}

// exec runs a command.
func (w *world) exec(session, cmd string) answer {
	w.Helper()
	body, err := json.Marshal(map[string]any{"cmd": cmd})
	if err != nil {
		w.Fatal(err)
	}
	return w.ask(200, "POST", session+"/exec", string(body))
}

// want runs a command and says what must come of it.
func (w *world) want(session, cmd, output string, code int) answer {
	w.Helper()
	a := w.exec(session, cmd)
	if a.body["output"] != output || a.body["exit_code"] != float64(code) {
		w.Errorf("%.200q: %.500s; want %q, %d", cmd, a.raw, output, code)
	}
	return a
}
