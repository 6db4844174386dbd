//go:build linux

package port

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/test/leak"
	"github.com/belljar/belljar/test/nest"
)

// The list of ports looks for programs only among the first 512 processes, and a busy machine has more: run in a PID namespace.
func TestMain(m *testing.M) { os.Exit(nest.Main(func() int { return leak.Main(m) })) }

// world is the ports of one session in a sandbox of the fake runtime, which are those of this machine.
type world struct {
	*Ports
	ctx    context.Context
	end    context.CancelCauseFunc
	state  belljar.Session
	box    *box.Box
	touch  chan struct{} // receives a value for each use
	events chan event.Event
}

func (w *world) Session() belljar.Session { return w.state }
func (w *world) Context() context.Context { return w.ctx }
func (w *world) Life() context.Context    { return w.Context() }
func (w *world) Box() *box.Box            { return w.box }
func (w *world) Touch()                   { w.touch <- struct{}{} }

func newWorld(t *testing.T, limits Limits) *world {
	t.Helper()
	rt := fake.New(fake.Options{Dir: t.TempDir(), Ports: true})
	w := &world{
		state: belljar.Session{ID: belljar.NewID(), UserID: "ann", State: belljar.SessionActive},
		touch: make(chan struct{}, 1000), events: make(chan event.Event, 100),
	}
	sandbox, err := rt.Create(t.Context(), runtime.Spec{
		ID: w.state.ID, Workspace: runtime.Workspace{Bytes: 1 << 20, Inodes: 100, Medium: runtime.MediumMemory},
		Network: runtime.Network{Mode: runtime.NetworkNone}, Lifetime: runtime.LifetimeCreator,
	})
	if err != nil {
		t.Fatal(err)
	}
	caps, err := rt.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if w.box, err = box.Connect(t.Context(), sandbox, caps, runtime.Root{}); err != nil {
		t.Fatal(err)
	}
	w.ctx, w.end = context.WithCancelCause(context.Background())
	check := func(caller belljar.Caller, id string) error {
		if id != w.state.ID || !caller.Sees("ann") {
			return &belljar.Error{Code: belljar.CodeNotFound}
		}
		return nil
	}
	w.Ports = New(Options{
		Limits: limits, Check: check,
		Acquire: func(_ context.Context, caller belljar.Caller, id string) (Session, func(), error) {
			if err := check(caller, id); err != nil {
				return nil, nil, err
			}
			return w, func() {}, nil
		},
		Ended:     func(context.Context, belljar.Session) error { return &belljar.Error{Code: belljar.CodeConflict} },
		Refused:   func(_ belljar.Caller, _ string, err error) error { return err },
		Record:    func(e event.Event) { w.events <- e },
		Now:       time.Now,
		AfterFunc: func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop },
	})
	t.Cleanup(func() {
		w.end(nil)
		if err := errors.Join(sandbox.Destroy(context.Background()), rt.Close()); err != nil {
			t.Error(err)
		}
		if len(w.table.session) > 0 || len(w.table.ports) > 0 {
			t.Errorf("left in the table: %v %v", w.table.session, w.table.ports)
		}
	})
	return w
}

func (w *world) ann() belljar.Ports { return w.As(belljar.Caller{ID: "ann"}) }

// listen serves connections at a port of this machine until the test ends.
func listen(t *testing.T, serve func(*net.TCPConn)) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c.(*net.TCPConn))
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().(*net.TCPAddr).Port
}

// echo sends the received bytes back, after the end of file.
func echo(c *net.TCPConn) {
	defer c.Close()
	b, _ := io.ReadAll(c)
	_, _ = c.Write(b)
}

func TestDial(t *testing.T) {
	w := newWorld(t, Limits{})
	port := listen(t, echo)
	list, err := w.ann().List(t.Context(), w.state.ID)
	if err != nil || !slices.ContainsFunc(list, func(p belljar.Port) bool { return p.Port == port && p.Address == "127.0.0.1" && p.PID == os.Getpid() }) {
		t.Errorf("%+v, %v", list, err)
	}
	c, err := w.ann().Dial(t.Context(), w.state.ID, port)
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("0123456789"), 100_000)
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(text)
		sent <- errors.Join(err, c.CloseWrite())
	}()
	got, err := io.ReadAll(c)
	if err := errors.Join(err, <-sent); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := errors.Join(c.Close(), c.Close(), c.Abort()); err != nil {
		t.Error(err)
	}
	if len(w.touch) == 0 {
		t.Error("not counted as a use")
	}
	first, last := <-w.events, <-w.events
	if first.Name != event.PortOpened || last.Name != event.PortClosed || last.Count != int64(2*len(text)) || last.Detail["connections"] != "1" ||
		last.Session.ID != w.state.ID || last.Caller.ID != "ann" {
		t.Errorf("%+v\n%+v", first, last)
	}
}

func TestDialRefused(t *testing.T) {
	w := newWorld(t, Limits{PerSession: 2})
	port := listen(t, echo)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for name, tt := range map[string]struct {
		user, session string
		port          int
		code          belljar.Code
	}{
		"no port":       {"ann", w.state.ID, 0, belljar.CodeInvalidRequest},
		"no such port":  {"ann", w.state.ID, 65536, belljar.CodeInvalidRequest},
		"no listener":   {"ann", w.state.ID, closed.Addr().(*net.TCPAddr).Port, belljar.CodeNotFound},
		"other session": {"ann", belljar.NewID(), port, belljar.CodeNotFound},
		"other user":    {"bob", w.state.ID, port, belljar.CodeNotFound},
	} {
		_, err := w.As(belljar.Caller{ID: tt.user}).Dial(t.Context(), tt.session, tt.port)
		if belljar.CodeOf(err) != tt.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	var open []belljar.PortConn
	for range 2 {
		c, err := w.ann().Dial(t.Context(), w.state.ID, port)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	if _, err := w.ann().Dial(t.Context(), w.state.ID, port); belljar.CodeOf(err) != belljar.CodeQuotaExceeded {
		t.Errorf("a third: %v", err)
	}
	_ = open[0].Abort()
	c, err := w.ann().Dial(t.Context(), w.state.ID, port)
	if err != nil {
		t.Fatal("after one was closed: ", err)
	}
	_, _ = c.Close(), open[1].Close()
}

// The end of a session ends its connections, with that reason.
func TestSessionEnds(t *testing.T) {
	w := newWorld(t, Limits{})
	hold := make(chan struct{})
	reset := make(chan error, 1)
	port := listen(t, func(c *net.TCPConn) {
		go func() {
			defer c.Close()
			<-hold
			_, err := io.ReadAll(c)
			reset <- err
		}()
	})
	c, err := w.ann().Dial(t.Context(), w.state.ID, port)
	if err != nil {
		t.Fatal(err)
	}
	close(hold)
	read := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		read <- err
	}()
	w.state.State = belljar.SessionClosed
	w.end(nil)
	if err := <-read; belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("reader: %v", err)
	}
	if err := <-reset; err == nil {
		t.Error("the program saw an orderly end")
	}
	if _, err := c.Write([]byte("x")); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("writer: %v", err)
	}
	if err := c.(*conn).explain(io.EOF); belljar.CodeOf(err) != belljar.CodeConflict { // of a killed program
		t.Errorf("an end of file: %v", err)
	}
	_ = c.Close()
}
