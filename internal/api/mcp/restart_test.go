//go:build linux

package mcp_test

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/mcp"
)

// interruptedCall is a call whose run waits for its gate, in a mode.
type interruptedCall struct {
	p       *peer
	c       *web
	mode    belljar.ToolMode
	sandbox string
	gate    string
	id      int
	run     belljar.Run
}

// interruptible begins a call.
func interruptible(t *testing.T, w *world, h *httpServer, mode belljar.ToolMode, token any) *interruptedCall {
	t.Helper()
	x := &interruptedCall{mode: mode, gate: filepath.Join(t.TempDir(), "gate")}
	if err := unix.Mkfifo(x.gate, 0o600); err != nil {
		t.Fatal(err)
	}
	x.p, x.c = h.peer(t, "ann", "?mode="+string(mode))
	program := "echo begun; read x <" + x.gate + "; echo went"
	name, arguments := "sandbox_run", map[string]any{"runtime": "bash", "code": program}
	if mode == belljar.ToolsCode {
		x.sandbox = x.p.open()
		name, arguments = "sandbox_exec", map[string]any{"sandbox_id": x.sandbox, "cmd": []string{"sh", "-c", program}}
	}
	x.next("echo before") // it has an answer, so no later result reports it
	params := map[string]any{"name": name, "arguments": arguments}
	if token != nil {
		params["_meta"] = map[string]any{"progressToken": token}
	}
	x.id = x.p.ask("tools/call", params)
	x.run = begun(t, w, "ann")
	return x
}

// next returns the result of another call.
func (x *interruptedCall) next(program string) string {
	x.p.t.Helper()
	if x.mode == belljar.ToolsCode {
		return x.p.exec(x.sandbox, "sh", "-c", program).good(x.p.t).text
	}
	return x.p.tool("sandbox_run", map[string]any{"runtime": "bash", "code": program}).good(x.p.t).text
}

// open lets the run end, and waits for that.
func (x *interruptedCall) open(w *world) {
	x.p.t.Helper()
	gate, err := os.OpenFile(x.gate, os.O_RDWR, 0) // does not wait for a reader
	if err != nil {
		x.p.t.Fatal(err)
	}
	defer gate.Close()
	if _, err := gate.WriteString("go\n"); err != nil {
		x.p.t.Fatal(err)
	}
	if _, _, err := belljar.Collect(x.p.t.Context(), w.as("ann").Runs(), x.run.ID); err != nil {
		x.p.t.Fatal(err)
	}
}

// modes runs a test in each mode, without and with notifications of progress.
func modes(t *testing.T, test func(t *testing.T, mode belljar.ToolMode, token any)) {
	for _, mode := range []belljar.ToolMode{belljar.ToolsCode, belljar.ToolsCompute} {
		t.Run(string(mode), func(t *testing.T) { test(t, mode, nil) })
		t.Run(string(mode)+" with progress", func(t *testing.T) { test(t, mode, "p") })
	}
}

// A server that stops answers each call with what it started, which continues. The first result of the next server reports it, too.
func TestStopDuringCall(t *testing.T) {
	modes(t, func(t *testing.T, mode belljar.ToolMode, token any) {
		w := newWorld(t)
		first := w.httpServer(nil)
		x := interruptible(t, w, first, mode, token)
		if err := first.door.Close(); err != nil {
			t.Fatal(err)
		}
		words := []string{"the server stopped", "run " + x.run.ID + " continues", "do not make the call again"}
		if mode == belljar.ToolsCode {
			words = []string{"the server stopped", "exec_id " + x.run.ID + " in sandbox_id " + x.sandbox, "do not make the call again", "sandbox_exec_wait"}
		}
		x.p.answer(x.id).tool(t).refused(t, words...)
		if got := phase(t, w, "ann", x.run.ID); got != belljar.PhaseRunning {
			t.Fatalf("the run is %s", got)
		}
		x.c.url = w.httpServer(nil).URL + "/mcp"
		if text := x.next("true"); strings.Count(text, "note: ") != 1 || !strings.Contains(text, "the server restarted") || !strings.Contains(text, x.run.ID) {
			t.Errorf("after the restart: %s", text)
		}
		x.open(w)
		text := x.next("true")
		if reported := strings.Contains(text, x.run.ID) && strings.Contains(text, "begun\nwent"); reported != (mode == belljar.ToolsCompute) {
			t.Errorf("after the end: %s", text)
		}
		if text := x.next("true"); strings.Contains(text, x.run.ID) {
			t.Errorf("it is reported twice: %s", text)
		}
	})
}

// After a server that was killed, the next one reports the run that ended meanwhile, but none whose result the client has.
func TestKillDuringCall(t *testing.T) {
	modes(t, func(t *testing.T, mode belljar.ToolMode, token any) {
		w := newWorld(t)
		x := interruptible(t, w, w.httpServer(nil), mode, token)
		began := time.Now()
		x.c.close() // the first server still runs, but its client does not reach it
		x.c.ctx, x.c.cancel = context.WithCancel(context.Background())
		defer x.c.cancel()
		x.open(w)
		x.c.url = w.httpServer(func(o *mcp.DoorOptions) { o.Began = began }).URL + "/mcp"
		if text := x.next("true"); strings.Count(text, "note: ") != 1 || !strings.Contains(text, "the server restarted") || !strings.Contains(text, x.run.ID) {
			t.Errorf("after the restart: %s", text)
		}
		if text := x.next("true"); strings.Contains(text, x.run.ID) {
			t.Errorf("it is reported twice: %s", text)
		}
	})
}

// slowConnection is a log that holds up the next connection of the SDK.
type slowConnection struct {
	slog.Handler
	next  chan struct{} // has a value if the next connection is to be held up
	begun chan struct{}
	over  chan struct{}
}

func (h slowConnection) Enabled(context.Context, slog.Level) bool { return true }

func (h slowConnection) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "server connecting" {
		select {
		case <-h.next:
			close(h.begun)
			<-h.over
		default:
		}
	}
	return nil
}

const ping = `{"jsonrpc":"2.0","id":9,"method":"ping"}`

// A session that takes long to be resumed delays no other session, with or without resumption.
func TestRestartSlowly(t *testing.T) {
	w := newWorld(t)
	h := slowConnection{slog.DiscardHandler, make(chan struct{}, 1), make(chan struct{}), make(chan struct{})}
	w.kit = mcp.New(mcp.Options{Version: "test", Logger: slog.New(h)})
	first := w.httpServer(nil)
	_, slow := first.peer(t, "ann", "")
	_, others := first.peer(t, "bob", "")
	if err := first.door.Close(); err != nil {
		t.Fatal(err)
	}
	second := w.httpServer(nil)
	slow.url, others.url = second.URL+"/mcp", second.URL+"/mcp"
	h.next <- struct{}{}
	done := make(chan string, 1)
	go func() { done <- bodyOf(t, slow.post(context.Background(), ping)) }()
	<-h.begun
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for what, resp := range map[string]*http.Response{
		"another session": others.post(ctx, ping), "no session": second.client(t, "ann", "").modernUntil(ctx, "server/discover", nil),
	} {
		if resp == nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %v", what, resp)
		}
	}
	close(h.over)
	if got := <-done; !strings.HasPrefix(got, "200") {
		t.Errorf("the slow session: %s", got)
	}
}
