package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/notice"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Pair{"3000": {3000, 3000}, "3000:8080": {3000, 8080}, "1:0": {1, 0}, "65535": {65535, 65535}} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "65536", "-1", "3000:", ":3000", "http", "3000:65536", "127.0.0.1:80:80", "+3", "3 "} {
		if got, err := Parse(text); belljar.CodeOf(err) != belljar.CodeInvalidRequest || belljar.HintOf(err) == "" {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// ports is a session whose program echoes what it receives.
type ports struct {
	belljar.Ports
	mu  sync.Mutex
	err error
}

func (p *ports) Dial(context.Context, string, int) (belljar.PortConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, p.err
	}
	in, out := io.Pipe()
	return &loop{in, out}, nil
}

type loop struct {
	*io.PipeReader
	w *io.PipeWriter
}

func (l *loop) Write(p []byte) (int, error) { return l.w.Write(p) }
func (l *loop) CloseWrite() error           { return l.w.Close() }
func (l *loop) Abort() error                { return l.w.CloseWithError(net.ErrClosed) }

// lines are the printed lines.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		l <- strings.TrimSuffix(line, "\n")
	}
	return len(b), nil
}

func TestForward(t *testing.T) {
	p, printed := &ports{}, make(lines, 100)
	f := Forward{Ports: p, Session: "s1", Notice: &notice.Writer{Stderr: printed}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx, []Pair{{3000, 0}}) }()
	line := <-printed
	addr, rest, ok := strings.Cut(strings.TrimPrefix(line, "belljar: http://"), " → ")
	if !ok || rest != "port 3000 of s1" {
		t.Fatal(line)
	}
	ask := func() (string, error) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return "", err // the reset may arrive that early
		}
		defer c.Close()
		_, _ = c.Write([]byte("hello"))
		_ = c.(*net.TCPConn).CloseWrite()
		b, err := io.ReadAll(c)
		return string(b), err
	}
	if got, err := ask(); err != nil || got != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	fail := func(err error) { p.mu.Lock(); p.err = err; p.mu.Unlock() }
	fail(&belljar.Error{Code: belljar.CodeNotFound, Message: "no program listens on port 3000", Hint: "start it", Details: map[string]any{"port": 3000}})
	for range 2 {
		if got, err := ask(); err == nil && got != "" {
			t.Errorf("no listener: %q", got)
		}
	}
	fail(nil)
	if got, err := ask(); err != nil || got != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	if a, b := <-printed, <-printed; a != "belljar: no program listens on port 3000" || b != "hint: start it" || len(printed) > 0 {
		t.Errorf("%q %q and %d more", a, b, len(printed))
	}

	for _, state := range []belljar.SessionState{belljar.SessionHibernated, belljar.SessionActive} {
		fail(&belljar.Error{Code: belljar.CodeConflict, Message: "forced to hibernate: " + string(state), Details: map[string]any{"state": string(state)}})
		_, _ = ask()
		if line := <-printed; !strings.HasSuffix(line, string(state)) {
			t.Error(line)
		}
		fail(nil)
		if got, err := ask(); err != nil || got != "hello" {
			t.Errorf("after the session hibernated: %q, %v", got, err)
		}
	}

	_, port, _ := net.SplitHostPort(addr)
	local, _ := strconv.Atoi(port)
	err := (&Forward{Ports: p, Session: "s1", Notice: f.Notice}).Run(ctx, []Pair{{3000, local}})
	if belljar.CodeOf(err) != belljar.CodeConflict || !strings.Contains(err.Error(), "port "+port+" of this machine is in use") || belljar.HintOf(err) == "" {
		t.Errorf("busy: %v", err)
	}

	gone := &belljar.Error{Code: belljar.CodeConflict, Message: "session s1 has ended"}
	fail(gone)
	_, _ = ask()
	if err := <-done; !errors.Is(err, gone) {
		t.Errorf("session has ended: %v", err)
	}
}

// scarce is a listener that fails at first.
type scarce struct {
	net.Listener
	failed bool
}

func (l *scarce) Accept() (net.Conn, error) {
	if !l.failed {
		l.failed = true
		return nil, errors.New("too many open files")
	}
	return l.Listener.Accept()
}

// A port continues to accept after a failed accept.
func TestAcceptGoesOn(t *testing.T) {
	l, err := listen(Pair{})
	if err != nil {
		t.Fatal(err)
	}
	printed := make(lines, 100)
	f := Forward{Ports: &ports{}, Notice: &notice.Writer{Stderr: printed}}
	ctx, stop := context.WithCancel(t.Context())
	f.open.Go(func() { f.accept(ctx, &scarce{Listener: l}, 80) })
	defer f.open.Wait()
	defer stop()
	if line := <-printed; !strings.Contains(line, "too many open files") {
		t.Error(line)
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Errorf("nothing comes back: %v", err)
	}
}
