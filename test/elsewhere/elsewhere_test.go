//go:build linux

// Package elsewhere tests, with real servers, workspaces that are not on the server's machine.
package elsewhere

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	root "github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/internal/agent/guest/health"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/program"
	"github.com/belljar/belljar/test/sprites"
)

func TestMain(m *testing.M) { program.Main(m) }

const patience = 2 * time.Minute

// belljar is a server that can be killed and started again over its data.
type belljar struct {
	t      *testing.T
	data   string
	listen string
	env    []string
	cmd    *exec.Cmd
	URL    string `json:"url"`
	Key    string `json:"api_key"`

	mu   sync.Mutex
	said strings.Builder
}

// Write takes what it says.
func (b *belljar) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said.Write(p)
}

func (b *belljar) words() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said.String()
}

func start(t *testing.T, env ...string) *belljar {
	t.Helper()
	program.NeedNative(t)
	program.Agent(t)
	b := &belljar{t: t, data: t.TempDir(), listen: "127.0.0.1:0", env: env}
	b.begin()
	t.Cleanup(b.end)
	return b
}

// command is belljar serve with its environment.
func (b *belljar) command() *exec.Cmd {
	cmd := exec.Command("belljar", "serve", "--json", "--listen", b.listen, "--data", b.data, "--set", "log_level=info", "--set", "image_pull=never", "--set", "pool_size=1")
	cmd.Env, cmd.Stderr = append(os.Environ(), b.env...), b
	return cmd
}

func (b *belljar) begin() {
	b.t.Helper()
	b.cmd = b.command()
	out, err := b.cmd.StdoutPipe()
	if err == nil {
		err = b.cmd.Start()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, b)
	}
	if err != nil {
		b.t.Fatalf("the server is not ready: %v\n%s", err, b.words())
	}
	b.listen = strings.TrimPrefix(b.URL, "http://")
}

// kill ends the server as a crash does.
func (b *belljar) kill() {
	b.cmd.Process.Kill()
	b.cmd.Wait()
}

func (b *belljar) end() {
	b.cmd.Process.Signal(syscall.SIGTERM)
	if err := b.cmd.Wait(); err != nil {
		b.t.Errorf("the server ends with %v\n%s", err, b.words())
	}
}

func (b *belljar) ask(method, path, body string) (int, string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, b.URL+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("X-API-KEY", b.Key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func (b *belljar) want(status int, part, method, path, body string) {
	b.t.Helper()
	if got, text := b.ask(method, path, body); got != status || !strings.Contains(text, part) {
		b.t.Errorf("%s %s: %d %s, want %d with %q\n%s", method, path, got, text, status, part, b.words())
	}
}

// asUser does something with the key of a new user.
func (b *belljar) asUser(name string, do func()) {
	b.t.Helper()
	c, err := client.New(client.Options{URL: b.URL, APIKey: b.Key})
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	made, err := c.Admin().CreateToken(context.Background(), root.TokenSpec{UserID: name})
	if err != nil {
		b.t.Fatal(err)
	}
	operator := b.Key
	b.Key = made.Secret
	do()
	b.Key = operator
}

// terminal is a client's WebSocket of a terminal.
type terminal struct {
	b    *belljar
	conn *websocket.Conn
	id   string
}

func (b *belljar) terminal(id string) *terminal {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path := "/workspace/ws/pty"
	if id != "" {
		path += "?session_id=" + id
	}
	conn, _, err := websocket.Dial(ctx, b.URL+path, &websocket.DialOptions{HTTPHeader: http.Header{"X-Api-Key": {b.Key}}})
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.words())
	}
	t := &terminal{b: b, conn: conn}
	t.until("session", "")
	return t
}

// until reads messages until one of a type has a text in its data; of those before, the data counts, too.
func (t *terminal) until(kind, text string) {
	t.b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	all := ""
	for {
		_, raw, err := t.conn.Read(ctx)
		if err != nil {
			t.b.t.Fatalf("%v after %q\n%s", err, all, t.b.words())
		}
		var m struct {
			Type, Data string
			SessionID  string `json:"session_id"`
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			t.b.t.Fatal(err)
		}
		if m.SessionID != "" {
			t.id = m.SessionID
		}
		if m.Type == "error" || m.Type == "session_not_found" {
			t.b.t.Fatalf("%s\n%s", raw, t.b.words())
		}
		if all += m.Data; m.Type == kind && strings.Contains(all, text) {
			return
		}
	}
}

func (t *terminal) say(text string) {
	t.b.t.Helper()
	raw, _ := json.Marshal(map[string]string{"type": "input", "data": text})
	if err := t.conn.Write(context.Background(), websocket.MessageText, raw); err != nil {
		t.b.t.Fatal(err)
	}
}

// outlives proves that a terminal and a file go on while the server is killed.
func (b *belljar) outlives() {
	b.t.Helper()
	b.want(200, `"success":true`, "PUT", "/workspace/api/file?path=notes/a.txt", `{"content":"hello"}`)
	first := b.terminal("")
	first.say("kept=4$((1+1)); echo begin-$kept\n")
	first.until("output", "begin-42")
	b.kill()
	first.conn.CloseNow()
	b.begin()
	second := b.terminal(first.id)
	defer second.conn.CloseNow()
	second.say("echo again-$kept; cat notes/a.txt\n")
	second.until("output", "hello")
	b.want(200, `"content":"hello"`, "GET", "/workspace/api/file?path=notes/a.txt", "")
	b.want(200, `"a.txt"`, "GET", "/workspace/api/tree?path=notes", "")
}

func TestAnotherBelljar(t *testing.T) {
	far := start(t)
	host, port, _ := net.SplitHostPort(far.listen)
	near := start(t, "SANDBOX_WORKSPACE_MODE=remote", "SANDBOX_WORKSPACE_URL="+far.URL, "SANDBOX_WORKSPACE_KEY="+far.Key)
	near.want(200, `"circuit":"closed"`, "GET", "/readyz", "")
	near.want(200, `"workspace_mode":"remote"`, "GET", "/workspace/api/config", "")
	near.outlives()

	for code, token := range map[int]string{0: far.Key, 3: strings.Repeat("x", 40)} {
		cmd := exec.Command(script(t))
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "SPRITES_WORKSPACE_SERVICE_HOST=" + host, "SPRITES_WORKSPACE_SERVICE_PORT=" + port,
			"SPRITES_WORKSPACE_SERVICE_PATH=/workspace", "SPRITES_WORKSPACE_SERVICE_TOKEN=" + token,
		}
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != code || code == 0 && !strings.Contains(string(out), "files: ok") {
			t.Errorf("%d, want %d: %s", cmd.ProcessState.ExitCode(), code, out)
		}
	}
	refuses(t, "auth", "SANDBOX_WORKSPACE_MODE=remote", "SANDBOX_WORKSPACE_URL="+far.URL, "SANDBOX_WORKSPACE_KEY=wrong")
}

// script is the path of smoke_check.sh.
func script(t *testing.T) string {
	t.Helper()
	need.Program(t, "curl")
	path, err := filepath.Abs("../../deploy/sandbox/smoke_check.sh")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// refuses starts a server that does not start, and says why without a secret.
func refuses(t *testing.T, reason string, env ...string) {
	t.Helper()
	b := &belljar{t: t, data: t.TempDir(), listen: "127.0.0.1:0", env: env}
	cmd := b.command()
	err := cmd.Run()
	if err == nil || !strings.Contains(b.words(), reason) || !strings.Contains(b.words(), "hint:") {
		t.Errorf("%s: %v\n%s", reason, err, b.words())
	}
	for _, secret := range []string{sprites.Token, serviceToken} {
		if strings.Contains(b.words(), secret) {
			t.Errorf("%s: it tells a token\n%s", reason, b.words())
		}
	}
}

const serviceToken = "0123456789abcdef0123456789abcdef"

func TestSprite(t *testing.T) {
	dir := t.TempDir()
	api := sprites.New("box", dir)
	t.Cleanup(api.End)
	for _, d := range []string{"/srv/workspace-api/run/secrets", "/home/sprite/workspace"} {
		if err := os.MkdirAll(dir+d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	agent, err := os.ReadFile(program.Agent(t))
	if err == nil {
		err = os.WriteFile(dir+"/srv/workspace-api/belljar-agent", agent, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	h, err := health.New("/internal/v1", serviceToken)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go h.Serve(l)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	env := []string{
		"WORKSPACE_MODE=sandbox", "SPRITES_BASE_URL=" + api.URL, "SPRITES_SPRITE_NAME=box", "SPRITES_TOKEN=" + sprites.Token,
		"SPRITES_WORKSPACE_SERVICE_HOST=127.0.0.1", "SPRITES_WORKSPACE_SERVICE_PORT=" + port, "SPRITES_WORKSPACE_SERVICE_PATH=/internal/v1",
		"SPRITES_WORKSPACE_SERVICE_TOKEN=" + serviceToken,
	}
	b := start(t, env...)
	smoke := exec.Command(script(t))
	belljar, err := exec.LookPath("belljar")
	if err != nil {
		t.Fatal(err)
	}
	smoke.Env = append(append(os.Environ(), env...), "BELLJAR="+belljar)
	if out, err := smoke.CombinedOutput(); err != nil || !strings.Contains(string(out), "run a program: ok") || api.Sessions() != 0 {
		t.Errorf("%v, %d sessions: %s", err, api.Sessions(), out)
	}
	b.want(200, `"circuit":"closed"`, "GET", "/readyz", "")
	b.want(200, `"workspace_mode":"sandbox"`, "GET", "/workspace/api/config", "")
	b.outlives()
	if text, err := os.ReadFile(dir + "/home/sprite/workspace/notes/a.txt"); err != nil || string(text) != "hello" {
		t.Errorf("%q, %v", text, err)
	}
	for range 3 { // a connection that breaks costs time and nothing else
		api.Disconnect()
		b.want(200, `"content":"hello"`, "GET", "/workspace/api/file?path=notes/a.txt", "")
	}
	if got, text := b.ask("POST", "/api/v1/sandbox/runs?wait=30s", `{"spec_version":"1.0","runtime":"sprites","base_image":"host","command":["true"]}`); got < 400 {
		t.Errorf("a run in the sprite, of which no limit is enforced: %d %s", got, text)
	}
	b.asUser("bob", func() { // the sprite is in use
		if status, text := b.ask("GET", "/workspace/api/tree", ""); status != 503 || !strings.Contains(text, "could not be made") {
			t.Errorf("a second user: %d %s", status, text)
		}
	})
	b.want(200, `sandbox_upstream_ready_duration_seconds_count{reason="",upstream="workspace_service"}`, "GET", "/metrics", "")
	if said := b.words(); strings.Contains(said, sprites.Token) || strings.Contains(said, serviceToken) {
		t.Errorf("the log has a token:\n%s", said)
	}

	with := func(change string) []string { return append(append([]string{}, env...), change) }
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"status":"ok","version":"0.0.1"}`)
	}))
	defer old.Close()
	_, other, _ := net.SplitHostPort(old.Listener.Addr().String())
	refuses(t, "auth", with("SPRITES_TOKEN=wrong")...)
	refuses(t, "auth", with("SPRITES_WORKSPACE_SERVICE_TOKEN="+strings.Repeat("w", 32))...)
	refuses(t, "unreachable", with("SPRITES_WORKSPACE_SERVICE_PORT=1")...)
	refuses(t, "bad_path", with("SPRITES_WORKSPACE_SERVICE_PATH=/elsewhere")...)
	refuses(t, "bad_path", with("SPRITES_SPRITE_NAME=nobody")...)
	refuses(t, "version_mismatch", with("SPRITES_WORKSPACE_SERVICE_PORT="+other)...)
}
