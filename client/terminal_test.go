//go:build linux

package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

// until reads from a terminal until it prints text.
func until(t *testing.T, a belljar.Attachment, text string) {
	t.Helper()
	var seen []byte
	for !bytes.Contains(seen, []byte(text)) {
		e, err := a.Next(within(t))
		if err != nil || e.Kind != belljar.TerminalHistory && e.Kind != belljar.TerminalOutput {
			t.Fatalf("%+v, %v instead of %q, behind %q", e, err, text, seen)
		}
		seen = append(seen, e.Data...)
	}
}

// last reads from a terminal up to its last event.
func last(t *testing.T, a belljar.Attachment) (e belljar.TerminalEvent) {
	t.Helper()
	for {
		got, err := a.Next(within(t))
		if errors.Is(err, io.EOF) {
			return e
		}
		if err != nil {
			t.Fatal(err)
		}
		e = got
	}
}

func TestTerminal(t *testing.T) {
	c := newWorld(t, nil).client()
	x := session(t, c)
	made, err := c.Terminals().Open(within(t), x.ID, belljar.TerminalSpec{
		Cols: 100, Rows: 30, Name: "work", Command: []string{"sh", "-c", "stty size; stty -echo; read a; echo \"got $a\"; read b; stty size; exit 5"},
	})
	if err != nil || made.Cols != 100 || made.Name != "work" {
		t.Fatal(made, err)
	}
	a, err := c.Terminals().Attach(within(t), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	until(t, a, "30 100")
	if err := a.Write(within(t), []byte("\xff\x01 bytes\n")); err != nil {
		t.Fatal(err)
	}
	until(t, a, "got \xff\x01 bytes\r\n")
	if got := a.Terminal(); got.ID != made.ID || got.Attached != 1 {
		t.Errorf("%+v", got)
	}
	for range 2 {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := a.Next(within(t)); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if err := a.Write(within(t), []byte("x")); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Error(err)
	}

	a, err = c.Terminals().Attach(within(t), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	until(t, a, "got \xff\x01 bytes\r\n")
	if err := a.Resize(0, 1); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Error(err)
	}
	if err := a.Resize(132, 50); err != nil {
		t.Fatal(err)
	}
	for { // sizes and input take different paths
		if got, err := c.Terminals().Get(within(t), made.ID); err != nil || got.Cols == 132 {
			break
		}
	}
	if err := a.Write(within(t), []byte("\n")); err != nil {
		t.Fatal(err)
	}
	if e := last(t, a); e.Kind != belljar.TerminalExit || e.ExitCode != 5 {
		t.Errorf("%+v", e)
	}
	list, err := c.Terminals().List(within(t), x.ID)
	if err != nil || len(list) != 1 || list[0].ExitCode == nil || *list[0].ExitCode != 5 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestTerminalEnds(t *testing.T) {
	w := newWorld(t, nil, func(o *service.Options) { o.Terminals.ViewerTimeout = time.Second })
	c := w.client()
	x := session(t, c)
	open := func(command ...string) (belljar.Terminal, belljar.Attachment) {
		made, err := c.Terminals().Open(within(t), x.ID, belljar.TerminalSpec{Command: command})
		if err != nil {
			t.Fatal(err)
		}
		a, err := c.Terminals().Attach(within(t), made.ID)
		if err != nil {
			t.Fatal(err)
		}
		return made, a
	}
	made, first := open("cat")
	second, err := c.Terminals().Attach(within(t), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	if e := last(t, first); e.Kind != belljar.TerminalReplaced {
		t.Errorf("%+v", e)
	}
	if err := c.Terminals().Close(within(t), made.ID); err != nil {
		t.Fatal(err)
	}
	if e := last(t, second); e.Kind != belljar.TerminalClosed || e.Reason != "closed" {
		t.Errorf("%+v", e)
	}
	_, slow := open("sh", "-c", "yes")
	for { // the server detaches it once the network buffers are full
		if list, err := c.Terminals().List(within(t), x.ID); err != nil || list[len(list)-1].Attached == 0 {
			break
		}
	}
	if e := last(t, slow); e.Kind != belljar.TerminalOverflow {
		t.Errorf("%+v", e)
	}
	for name, call := range map[string]func() error{
		"open in no session": func() error { _, err := c.Terminals().Open(within(t), "nowhere", belljar.TerminalSpec{}); return err },
		"get":                func() error { _, err := c.Terminals().Get(within(t), made.ID); return err },
		"attach":             func() error { _, err := c.Terminals().Attach(within(t), made.ID); return err },
		"close":              func() error { return c.Terminals().Close(within(t), made.ID) },
		"list in no session": func() error { _, err := c.Terminals().List(within(t), "nowhere"); return err },
	} {
		if err := call(); belljar.CodeOf(err) != belljar.CodeNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = c.Terminals().Open(within(t), x.ID, belljar.TerminalSpec{Command: []string{"nosuchprogram"}})
	if belljar.CodeOf(err) != belljar.CodeInvalidRequest || !strings.Contains(err.Error(), "nosuchprogram") {
		t.Error(err)
	}
	_, open1 := open("cat")
	if err := c.Sessions().Delete(within(t), x.ID); err != nil {
		t.Fatal(err)
	}
	if e := last(t, open1); e.Kind != belljar.TerminalClosed {
		t.Errorf("%+v", e)
	}
}

// The longest history, all of it control characters, is one message.
func TestLongHistory(t *testing.T) {
	text := strings.Repeat("\x1b", 512<<10)
	url := double(t, func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		for _, m := range []any{
			map[string]any{"type": "session", "terminal": belljar.Terminal{ID: "t"}},
			map[string]any{"type": "history", "data": text},
			map[string]any{"type": "exit", "exit_code": 3},
		} {
			if raw, err := json.Marshal(m); err != nil || conn.Write(r.Context(), websocket.MessageText, raw) != nil {
				return // the client has left
			}
		}
		<-conn.CloseRead(r.Context()).Done()
	})
	a, err := open(t, url).Terminals().Attach(within(t), "t")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if e, err := a.Next(within(t)); err != nil || e.Kind != belljar.TerminalHistory || string(e.Data) != text {
		t.Fatalf("%s of %d bytes, %v", e.Kind, len(e.Data), err)
	}
	if e := last(t, a); e.ExitCode != 3 {
		t.Errorf("%+v", e)
	}
}

// TestWriteEnds: the end of a context during a write ends the connection. The error is that of the context, whichever the client sees first.
func TestWriteEnds(t *testing.T) {
	url := double(t, func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		if conn.Write(r.Context(), websocket.MessageText, []byte(`{"type":"session","terminal":{"terminal_id":"t"}}`)) == nil {
			<-t.Context().Done() // it reads nothing
		}
	})
	c := open(t, url)
	for range 20 {
		a, err := c.Terminals().Attach(within(t), "t")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		want(t, a.Write(ctx, make([]byte, 64<<20)), belljar.CodeTimeout)
		cancel()
	}
}
