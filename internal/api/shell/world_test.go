//go:build linux

package shell_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/shell"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/test/apitest"
	"github.com/belljar/belljar/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// world is the door with the real service and the fake runtime.
type world struct {
	*testing.T
	url    string
	engine belljar.Engine
	client *http.Client
	bodies *api.Shares
}

func newWorld(t *testing.T, change ...func(*service.Options)) *world {
	t.Helper()
	in := apitest.NewWorld(t, nil, append([]func(*service.Options){func(o *service.Options) { o.MaxSessions = -1 }}, change...)...)
	bodies := api.NewShares(32<<20, 0)
	door, err := shell.New(shell.Options{Engine: in.Service, Auth: apitest.Callers(), Bodies: bodies})
	if err != nil {
		t.Fatal(err)
	}
	server := apitest.Serve(t, api.EdgeOptions{}, door)
	return &world{T: t, engine: in.Service, url: server.URL, client: server.Client(), bodies: bodies}
}

// answer is a status and a body.
type answer struct {
	status int
	header http.Header
	raw    string
	body   map[string]any
}

// code returns the code of an error.
func (a answer) code() string {
	e, _ := a.body["error"].(map[string]any)
	code, _ := e["code"].(string)
	return code
}

// detail returns one detail of an error.
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
	_ = json.Unmarshal(raw, &a.body) // lists are not objects
	return a
}

// ask sends a request of alice and checks the status.
func (w *world) ask(status int, method, path, body string, header ...string) answer {
	w.Helper()
	a := w.send("alice", method, path, body, header...)
	if a.status != status {
		w.Fatalf("%s %s %.200s answers %d, want %d: %.500s", method, path, body, a.status, status, a.raw)
	}
	return a
}

// open creates a session and returns its path.
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

// want runs a command and checks its result.
func (w *world) want(session, cmd, output string, code int) answer {
	w.Helper()
	a := w.exec(session, cmd)
	if a.body["output"] != output || a.body["exit_code"] != float64(code) {
		w.Errorf("%.200q: %.500s; want %q, %d", cmd, a.raw, output, code)
	}
	return a
}
