//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/belljar/belljar/test/tier"
)

// front is a front end's WebSocket.
type front struct {
	*testing.T
	conn *websocket.Conn
}

func (s *server) front(path string) front {
	s.t.Helper()
	conn, _, err := websocket.Dial(s.t.Context(), s.URL+"/workspace/ws/"+path, &websocket.DialOptions{HTTPHeader: http.Header{"X-Api-Key": {s.Key}}})
	if err != nil {
		s.t.Fatalf("%s: %v", path, err)
	}
	conn.SetReadLimit(16 << 20)
	s.t.Cleanup(func() { _ = conn.CloseNow() })
	return front{s.t, conn}
}

func (p front) say(text string) {
	p.Helper()
	if err := p.conn.Write(p.Context(), websocket.MessageText, []byte(text)); err != nil {
		p.Fatal(err)
	}
}

func (p front) next() (m map[string]any) {
	p.Helper()
	_, raw, err := p.conn.Read(p.Context())
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil {
		p.Fatalf("%v in %s", err, raw)
	}
	return m
}

// shows reads a terminal until it has printed a text.
func (p front) shows(text string) {
	p.Helper()
	for seen := ""; !strings.Contains(seen, text); {
		if data, ok := p.next()["data"].(string); ok {
			seen += data
		}
	}
}

// TestWorkspaceKill kills the server during a terminal and a chat. With the tokens from before, a front end reconnects to the same
// shell, and gets the chat program's output since then without a gap or a duplicate.
func TestWorkspaceKill(t *testing.T) {
	const lines = 60
	program := fmt.Sprintf(`import os, signal, sys, time
signal.signal(signal.SIGINT, lambda *_: None)
for line in sys.stdin:
    for n in range(%d):
        os.write(1, b'{"n":%%d}\n' %% (n + 1))
        time.sleep(.01)
`, lines)
	templates, err := json.Marshal(map[string]any{
		"shell": map[string]any{"kind": "pty"}, "count": map[string]any{"kind": "chat", "command": []string{"python3", "-c", program}},
	})
	if err != nil {
		t.Fatal(err)
	}
	data, set := t.TempDir(), "workspace_templates="+string(templates)
	s := serve(t, data, "--set", set)
	shell, chat := s.front("pty"), s.front("claude-stream")
	pty := shell.next()["session_id"].(string)
	shell.say("A=kept; echo rea''dy\n")
	shell.shows("ready")
	hello := chat.next()
	chat.say("go")
	got := 0
	for got < 5 {
		if n := chat.next()["n"]; n != float64(got+1) {
			t.Fatalf("line %v after %d", n, got)
		}
		got++
	}
	s.kill()
	s = serve(t, data, "--set", set)

	shell = s.front("pty?session_id=" + pty)
	if m := shell.next(); m["type"] != "session" || m["resumed"] != true {
		t.Fatal(m)
	}
	shell.shows("ready") // of the history
	shell.say("echo still-$A\n")
	shell.shows("still-kept")
	chat = s.front(fmt.Sprintf("claude-stream?session_id=%s&from_seq=%d", hello["session_id"], got+1))
	if m := chat.next(); m["subtype"] != "connected" || m["resumed"] != true || m["seq"] != float64(got) {
		t.Fatal(m)
	}
	for got < lines {
		if n := chat.next()["n"]; n != float64(got+1) {
			t.Fatalf("line %v after %d", n, got)
		}
		got++
	}
	chat.say("more")
	if n := chat.next()["n"]; n != float64(1) {
		t.Fatal(n)
	}
	chat.say(`{"type":"interrupt"}`)
	for m := chat.next(); m["subtype"] != "interrupted"; m = chat.next() {
		if m["subtype"] == "error" {
			t.Fatal(m)
		}
	}

	// Clients reconnect many times.
	for range tier.Rounds(t, 5, 1000) {
		p := s.front("pty?session_id=" + pty)
		if m := p.next(); m["resumed"] != true {
			t.Fatal(m)
		}
		_ = p.conn.CloseNow()
	}
}

// TestWorkspaceLocal runs a server over a folder of this machine: the operator must allow it, and the server leaves the folder
// unchanged.
func TestWorkspaceLocal(t *testing.T) {
	data, work := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(work, "note"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link") // git would look for a repository in the folders above the link's target
	if err := os.Symlink(work, link); err != nil {
		t.Fatal(err)
	}
	_, ready := launch(t, t.TempDir(), "--set", "workspace_mode=local", "--set", "workspace_dir="+work)
	if err := <-ready; err == nil {
		t.Error("the mode local needs no word of the operator")
	}
	s := serve(t, data, "--set", "workspace_mode=local", "--set", "workspace_dir="+link, "--set", "allow_weak=workspace_local")
	p := s.front("pty")
	p.next()
	p.say("pwd; cat note; echo done > made\n")
	p.shows("mine")
	if status, got, err := s.try("GET", "/workspace/api/config", nil); err != nil || status != 200 || got["workspace_root"] != work || got["isolated"] != false {
		t.Error(status, got, err)
	}
	if status, got, err := s.try("GET", "/readyz", nil); err != nil || status != 200 || !strings.Contains(fmt.Sprint(got), "circuit:closed") {
		t.Error(status, got, err)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("the server ended with %d\n%s", code, s.output)
	}
	if raw, err := os.ReadFile(filepath.Join(work, "note")); err != nil || string(raw) != "mine" {
		t.Errorf("%q, %v", raw, err)
	}
	if left, err := os.ReadDir(work); err != nil || len(left) != 2 {
		t.Errorf("the folder has %v, %v", left, err)
	}
}
