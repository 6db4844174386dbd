//go:build linux

// Package elsewhere tests, with real servers, workspaces on other machines than the server's.
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
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/peer"
	"github.com/belljar/belljar/test/program"
	"github.com/belljar/belljar/test/sprites"
)

func TestMain(m *testing.M) { program.Main(m) }

const patience = 10 * time.Minute

// belljar is a server that can be killed and restarted with its data.
type belljar struct {
	t      testing.TB
	data   string
	listen string
	env    []string
	cmd    *exec.Cmd
	URL    string `json:"url"`
	Key    string `json:"api_key"`

	mu     sync.Mutex
	output strings.Builder
}

// Write records the server's output.
func (b *belljar) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.output.Write(p)
}

func (b *belljar) words() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.output.String()
}

func start(t testing.TB, env ...string) *belljar {
	t.Helper()
	program.NeedNative(t)
	program.Agent(t)
	b := &belljar{t: t, data: t.TempDir(), listen: net.JoinHostPort(peer.Address(t), "0"), env: env}
	b.begin()
	t.Cleanup(b.end)
	return b
}

// command is belljar serve with its environment.
func (b *belljar) command() *exec.Cmd {
	cmd := exec.Command("belljar", "serve", "--json", "--listen", b.listen, "--data", b.data, "--set", "log_level=info", "--set", "image_pull=never", "--set", "end_sessions=true", "--set", "drain_sec=0", "--set", "pool_size=1")
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

// asUser runs do with the key of a new user.
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

// front is a front end's WebSocket.
type front struct {
	b    *belljar
	conn *websocket.Conn
}

// front opens a WebSocket below /workspace/ws/, and returns its first message, too.
func (b *belljar) front(path string) (front, map[string]any) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, b.URL+"/workspace/ws/"+path, &websocket.DialOptions{HTTPHeader: http.Header{"X-Api-Key": {b.Key}}})
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.words())
	}
	b.t.Cleanup(func() { _ = conn.CloseNow() })
	f := front{b, conn}
	return f, f.next()
}

func (f front) next() (m map[string]any) {
	f.b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, raw, err := f.conn.Read(ctx)
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil || m["type"] == "error" || m["type"] == "session_not_found" || m["subtype"] == "error" {
		f.b.t.Fatalf("%v: %s\n%s", err, raw, f.b.words())
	}
	return m
}

// shows reads a terminal until it has printed a text.
func (f front) shows(text string) {
	f.b.t.Helper()
	for all := ""; !strings.Contains(all, text); {
		data, _ := f.next()["data"].(string)
		all += data
	}
}

// counts reads a chat whose program counts, from the number after got to a last one.
func (f front) counts(got, last int) int {
	f.b.t.Helper()
	for ; got < last; got++ {
		if m := f.next(); m["n"] != float64(got+1) {
			f.b.t.Fatalf("%v after %d\n%s", m, got, f.b.words())
		}
	}
	return got
}

func (f front) say(text string) {
	f.b.t.Helper()
	if err := f.conn.Write(context.Background(), websocket.MessageText, []byte(text)); err != nil {
		f.b.t.Fatal(err)
	}
}

// lines is the number of lines that the chat's program prints for each line that it reads.
const lines = 40

// counter is a chat's program, which an interrupt does not end.
var counter = fmt.Sprintf(`import os, signal, sys, time
signal.signal(signal.SIGINT, lambda *_: None)
for line in sys.stdin:
    for n in range(%d):
        os.write(1, b'{"n":%%d}\n' %% (n + 1))
        time.sleep(.01)
`, lines)

// templates contains that program.
var templates = fmt.Sprintf(`SANDBOX_WORKSPACE_TEMPLATES={"shell":{"kind":"pty"},"count":{"kind":"chat","command":["python3","-c",%q]}}`, counter)

// outlives proves that a terminal, a chat and a file survive while dies is killed and restarted: front ends reconnect to the same
// programs, and get the output since then without a gap or a duplicate.
func (b *belljar) outlives(dies *belljar) {
	b.t.Helper()
	b.want(200, `"success":true`, "PUT", "/workspace/api/file?path=notes/a.txt", `{"content":"hello"}`)
	shell, pty := b.front("pty")
	shell.say("kept=4$((1+1)); echo begin-$kept\n")
	shell.shows("begin-42")
	chat, hello := b.front("claude-stream")
	chat.say("go")
	got := chat.counts(0, 5)
	dies.kill()
	_, _ = shell.conn.CloseNow(), chat.conn.CloseNow() // so that no request goes to the dead server
	dies.begin()
	shell, m := b.front(fmt.Sprintf("pty?session_id=%s", pty["session_id"]))
	if m["resumed"] != true {
		b.t.Errorf("%v", m)
	}
	shell.say("echo again-$kept-$(cat notes/a.txt)\n")
	shell.shows("again-42-hello")
	chat, m = b.front(fmt.Sprintf("claude-stream?session_id=%s&from_seq=%d", hello["session_id"], got+1))
	if m["subtype"] != "connected" || m["resumed"] != true || m["seq"] != float64(got) {
		b.t.Errorf("%v", m)
	}
	chat.counts(got, lines)
	chat.say("more")
	chat.counts(0, 1)
	chat.say(`{"type":"interrupt"}`)
	for m["subtype"] != "interrupted" {
		m = chat.next()
	}
	b.want(200, `"content":"hello"`, "GET", "/workspace/api/file?path=notes/a.txt", "")
	b.want(200, `"a.txt"`, "GET", "/workspace/api/tree?path=notes", "")
}

func TestAnotherBelljar(t *testing.T) {
	far := start(t)
	host, port, _ := net.SplitHostPort(far.listen)
	near := start(t, "SANDBOX_WORKSPACE_MODE=remote", "SANDBOX_WORKSPACE_URL="+far.URL, "SANDBOX_WORKSPACE_KEY="+far.Key, templates)
	near.want(200, `"circuit":"closed"`, "GET", "/readyz", "")
	near.want(200, `"workspace_mode":"remote"`, "GET", "/workspace/api/config", "")
	near.outlives(near)
	near.outlives(far)

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
	doctor := exec.Command("belljar", "doctor")
	doctor.Env = append(os.Environ(), "SANDBOX_WORKSPACE_MODE=remote", "SANDBOX_WORKSPACE_URL="+far.URL, "SANDBOX_WORKSPACE_KEY="+far.Key)
	if out, err := doctor.CombinedOutput(); err != nil || !strings.Contains(string(out), "workspace remote  available\n") {
		t.Errorf("%v\n%s", err, out)
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

// refuses starts a server that must not start, and must print the reason without a secret.
func refuses(t *testing.T, reason string, env ...string) {
	t.Helper()
	b := &belljar{t: t, data: t.TempDir(), listen: net.JoinHostPort(peer.Address(t), "0"), env: env}
	cmd := b.command()
	err := cmd.Run()
	if err == nil || !strings.Contains(b.words(), reason) || !strings.Contains(b.words(), "hint:") {
		t.Errorf("%s: %v\n%s", reason, err, b.words())
	}
	for _, secret := range []string{sprites.Token, sprites.ServiceToken} {
		if strings.Contains(b.words(), secret) {
			t.Errorf("%s: it tells a token\n%s", reason, b.words())
		}
	}
}

// newSprite returns a sprite with the workspace service, and the settings of a server that uses it.
func newSprite(t testing.TB) (api *sprites.Server, env []string) {
	agent, err := os.ReadFile(program.Agent(t))
	if err != nil {
		t.Fatal(err)
	}
	api, service := sprites.Deployed(t, agent)
	host, port, _ := net.SplitHostPort(service)
	return api, []string{
		"WORKSPACE_MODE=sandbox", "SPRITES_BASE_URL=" + api.URL, "SPRITES_SPRITE_NAME=box", "SPRITES_TOKEN=" + sprites.Token,
		"SPRITES_WORKSPACE_SERVICE_HOST=" + host, "SPRITES_WORKSPACE_SERVICE_PORT=" + port, "SPRITES_WORKSPACE_SERVICE_PATH=/internal/v1",
		"SPRITES_WORKSPACE_SERVICE_TOKEN=" + sprites.ServiceToken, templates,
	}
}

func TestSprite(t *testing.T) {
	api, env := newSprite(t)
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
	b.outlives(b)
	if text, err := os.ReadFile(api.Dir + "/home/sprite/workspace/notes/a.txt"); err != nil || string(text) != "hello" {
		t.Errorf("%q, %v", text, err)
	}
	for range 3 { // a broken connection only costs time
		api.Disconnect()
		b.want(200, `"content":"hello"`, "GET", "/workspace/api/file?path=notes/a.txt", "")
	}
	if got, text := b.ask("POST", "/api/v1/sandbox/runs?wait=600s", `{"spec_version":"1.0","runtime":"sprites","base_image":"host","command":["true"]}`); got < 400 {
		t.Errorf("a run in the sprite, of which no limit is enforced: %d %s", got, text)
	}
	var open struct {
		Items []root.Session `json:"items"`
	}
	if _, text := b.ask("GET", "/api/v1/sandbox/sessions", ""); json.Unmarshal([]byte(text), &open) != nil || len(open.Items) != 1 {
		t.Fatal(text)
	}
	b.want(409, "its files stay where they are", "POST", "/api/v1/sandbox/sessions/"+open.Items[0].ID+"/hibernate", `{"force":true}`)
	b.asUser("bob", func() { // another session uses the sprite
		if status, text := b.ask("GET", "/workspace/api/tree", ""); status != 503 || !strings.Contains(text, "could not be made") {
			t.Errorf("a second user: %d %s", status, text)
		}
	})
	b.want(200, `sandbox_upstream_ready_duration_seconds_count{reason="",upstream="workspace_service"}`, "GET", "/metrics", "")
	if output := b.words(); strings.Contains(output, sprites.Token) || strings.Contains(output, sprites.ServiceToken) {
		t.Errorf("the log has a token:\n%s", output)
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
