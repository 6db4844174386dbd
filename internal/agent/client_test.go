package agent_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/test/leak"
	"github.com/belljar/belljar/test/sockdir"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// script is a fake agent's handler for one stream, called after it has read the request; it sends its own hello.
type script func(t *testing.T, req wire.Request, r *wire.Reader, w *wire.Writer)

// scripted returns a client whose fake agent runs the script on every stream and ends with the test.
func scripted(t *testing.T, s script) *agent.Client {
	t.Helper()
	return connected(t, func(inside net.Conn) { serve(t, inside, s) })
}

// connected returns a client whose fake agent is handle on every connection, and ends with the test.
func connected(t *testing.T, handle func(inside net.Conn)) *agent.Client {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(sockdir.New(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return agent.New(func(context.Context) (net.Conn, error) {
		host, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			return nil, err
		}
		inside, err := l.Accept()
		if err != nil {
			return nil, err
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer inside.Close()
			handle(inside)
		}()
		t.Cleanup(func() {
			host.Close()
			<-done
		})
		return host, nil
	})
}

func serve(t *testing.T, conn net.Conn, s script) {
	r, w := wire.NewReader(conn), wire.NewWriter(conn)
	f, err := r.Read()
	var hello wire.Hello
	if err != nil || f.Kind != wire.KindHello || f.JSON(&hello) != nil || hello.Version != wire.Version || hello.Protocol != wire.Protocol {
		t.Errorf("hello: %+v, %v", hello, err)
		return
	}
	var req wire.Request
	if f, err = r.Read(); err != nil || f.Kind != wire.KindRequest || f.JSON(&req) != nil {
		t.Errorf("request: %v", err)
		return
	}
	s(t, req, r, w)
}

func greet(w *wire.Writer) {
	w.JSON(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: wire.Version, BootID: "b"})
}

func answer(reply wire.Reply) script {
	return func(_ *testing.T, _ wire.Request, _ *wire.Reader, w *wire.Writer) {
		greet(w)
		w.JSON(wire.KindReply, reply)
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestVersions(t *testing.T) {
	for version, ok := range map[int]bool{wire.Version: true, wire.Version - 1: true, wire.Version + 1: false, wire.Version - 2: false} {
		c := scripted(t, func(_ *testing.T, _ wire.Request, _ *wire.Reader, w *wire.Writer) {
			w.JSON(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: version})
			w.JSON(wire.KindReply, wire.Reply{Info: &wire.Info{BootID: "b"}})
		})
		if _, err := c.Ping(within(t)); (err == nil) != ok || !ok && !errors.Is(err, agent.ErrProtocol) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

func TestAgentThatBreaksTheProtocol(t *testing.T) {
	for name, s := range map[string]script{
		"another protocol": func(_ *testing.T, _ wire.Request, _ *wire.Reader, w *wire.Writer) {
			w.JSON(wire.KindHello, wire.Hello{Protocol: "http", Version: wire.Version})
		},
		"no hello": func(_ *testing.T, _ wire.Request, _ *wire.Reader, w *wire.Writer) { w.EOF() },
		"data for an answer": func(_ *testing.T, _ wire.Request, _ *wire.Reader, w *wire.Writer) {
			greet(w)
			w.Data([]byte("x"))
		},
		"an empty answer": answer(wire.Reply{}),
	} {
		if _, err := scripted(t, s).Ping(within(t)); !errors.Is(err, agent.ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := scripted(t, s).Exec(within(t), wire.Exec{ID: "x"}); !errors.Is(err, agent.ErrProtocol) {
			t.Errorf("%s: exec: %v", name, err)
		}
	}
}

func TestAgentThatGoes(t *testing.T) {
	c := scripted(t, func(_ *testing.T, _ wire.Request, _ *wire.Reader, w *wire.Writer) { greet(w) })
	if _, err := c.Ping(within(t)); !errors.Is(err, agent.ErrDisconnected) {
		t.Error(err)
	}
	c = scripted(t, func(_ *testing.T, _ wire.Request, _ *wire.Reader, w *wire.Writer) {
		greet(w)
		w.JSON(wire.KindReply, wire.Reply{File: &wire.FileInfo{Type: "file", Size: 10}})
		w.Data([]byte("12345"))
	})
	r, _, err := c.ReadFile(within(t), wire.FileRequest{Path: "f"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); string(b) != "12345" || !errors.Is(err, agent.ErrDisconnected) {
		t.Errorf("half a file: %q, %v", b, err)
	}
}

func TestRemoteErrors(t *testing.T) {
	c := scripted(t, answer(wire.Reply{Error: &wire.Error{Code: wire.CodeNoSpace, Message: "full"}}))
	_, ping := c.Ping(within(t))
	_, exec := c.Exec(within(t), wire.Exec{ID: "x"})
	_, stat := c.Stat(within(t), wire.FileRequest{Path: "f"})
	tarOut := c.TarOut(within(t), wire.FileRequest{Path: "."}, io.Discard)
	for name, err := range map[string]error{"ping": ping, "exec": exec, "stat": stat, "tar out": tarOut} {
		var remote *wire.Error
		if !errors.As(err, &remote) || remote.Code != wire.CodeNoSpace {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRefusalInTheMidstOfContents checks that the agent's error takes precedence over the broken connection.
func TestRefusalInTheMidstOfContents(t *testing.T) {
	c := scripted(t, func(_ *testing.T, _ wire.Request, r *wire.Reader, w *wire.Writer) {
		r.Read()
		greet(w)
		w.JSON(wire.KindReply, wire.Reply{Error: &wire.Error{Code: wire.CodeTooLarge, Message: "too large"}})
	})
	_, err := c.WriteFile(within(t), wire.FileRequest{Path: "f"}, bytes.NewReader(make([]byte, 4<<20)))
	var remote *wire.Error
	if !errors.As(err, &remote) || remote.Code != wire.CodeTooLarge {
		t.Error(err)
	}
}

func TestContentsThatFail(t *testing.T) {
	mishap := errors.New("mishap")
	complete := make(chan bool, 1)
	c := scripted(t, func(_ *testing.T, _ wire.Request, r *wire.Reader, _ *wire.Writer) {
		for {
			f, err := r.Read()
			if err != nil || f.Kind == wire.KindEOF {
				complete <- err == nil
				return
			}
		}
	})
	body := io.MultiReader(strings.NewReader(strings.Repeat("x", 100_000)), iotest.ErrReader(mishap))
	if _, err := c.WriteFile(within(t), wire.FileRequest{Path: "f"}, body); !errors.Is(err, mishap) {
		t.Error(err)
	}
	if <-complete {
		t.Error("the agent received the end of the contents")
	}
}

// process starts a command on a fake agent that has sent Started.
func process(t *testing.T, st wire.Started, s script) *agent.Process {
	t.Helper()
	c := scripted(t, func(t *testing.T, req wire.Request, r *wire.Reader, w *wire.Writer) {
		greet(w)
		w.JSON(wire.KindReply, wire.Reply{Started: &st})
		s(t, req, r, w)
	})
	p, err := c.Exec(within(t), wire.Exec{ID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func ignore(int64, wire.Stream, []byte) error { return nil }

func TestOutputWithAGap(t *testing.T) {
	for name, positions := range map[string][]int64{"gap": {5, 9}, "twice": {5, 5}, "early": {4}, "late": {6}} {
		p := process(t, wire.Started{ID: "x", From: 5}, func(_ *testing.T, _ wire.Request, _ *wire.Reader, w *wire.Writer) {
			for _, at := range positions {
				w.Output(at, wire.Stdout, []byte("abc"))
			}
		})
		if _, err := p.Output(within(t), ignore); !errors.Is(err, agent.ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := process(t, wire.Started{ID: "x"}, func(_ *testing.T, _ wire.Request, _ *wire.Reader, w *wire.Writer) {
		w.Output(0, wire.Stdout, []byte("abc"))
		w.JSON(wire.KindReply, wire.Reply{Exit: &wire.Exit{Position: 4}})
	})
	if _, err := p.Output(within(t), ignore); !errors.Is(err, agent.ErrProtocol) {
		t.Errorf("missing at the end: %v", err)
	}
}

// A host limits its input and sets its timers by an agent's report of a command, so it must validate the report.
func TestStartThatCannotBe(t *testing.T) {
	for name, st := range map[string]wire.Started{
		"from before": {From: 2}, "stdin": {From: 3, Stdin: -1}, "limit": {From: 3, StdinLimit: -1}, "age": {From: 3, AgeMS: -1},
		"great age": {From: 3, AgeMS: math.MaxInt64 / 1000},
	} {
		if _, err := scripted(t, answer(wire.Reply{Started: &st})).Attach(within(t), "x", 3); !errors.Is(err, agent.ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An agent that sends more output than the host requested could fill the host's memory.
func TestOutputBeyondItsLimit(t *testing.T) {
	for size, ok := range map[int]bool{10: true, 11: false} {
		c := scripted(t, func(_ *testing.T, _ wire.Request, _ *wire.Reader, w *wire.Writer) {
			greet(w)
			w.JSON(wire.KindReply, wire.Reply{Started: &wire.Started{}})
			w.Output(0, wire.Stdout, make([]byte, 5))
			w.Output(5, wire.Stderr, make([]byte, size-5))
			w.JSON(wire.KindReply, wire.Reply{Exit: &wire.Exit{Position: int64(size)}})
		})
		p, err := c.Exec(within(t), wire.Exec{ID: "x", OutputLimit: 10})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Output(within(t), ignore); (err == nil) != ok || !ok && !errors.Is(err, agent.ErrProtocol) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestAcks checks that delivered output is acknowledged at the end, and refused output is not.
func TestAcks(t *testing.T) {
	var acks []int64
	read := make(chan struct{})
	p := process(t, wire.Started{ID: "x"}, func(t *testing.T, _ wire.Request, r *wire.Reader, w *wire.Writer) {
		defer close(read)
		w.Output(0, wire.Stdout, []byte("abc"))
		w.Output(3, wire.Stderr, []byte("de"))
		w.JSON(wire.KindReply, wire.Reply{Exit: &wire.Exit{Code: 3, Position: 5}})
		for {
			f, err := r.Read()
			if err != nil {
				return
			}
			var c wire.Control
			if f.Kind != wire.KindControl || f.JSON(&c) != nil || c.Ack == nil {
				t.Errorf("frame of kind %d: %+v", f.Kind, c)
				return
			}
			acks = append(acks, *c.Ack)
		}
	})
	exit, err := p.Output(within(t), ignore)
	if err != nil || exit.Code != 3 || p.Position() != 5 {
		t.Errorf("%+v, %v", exit, err)
	}
	p.Close()
	if <-read; len(acks) != 1 || acks[0] != 5 {
		t.Errorf("acks %v", acks)
	}

	full := errors.New("disk full")
	nothing := make(chan error, 1)
	p = process(t, wire.Started{ID: "x"}, func(_ *testing.T, _ wire.Request, r *wire.Reader, w *wire.Writer) {
		w.Output(0, wire.Stdout, make([]byte, wire.MaxData))
		_, err := r.Read()
		nothing <- err
	})
	_, err = p.Output(within(t), func(int64, wire.Stream, []byte) error { return full })
	if !errors.Is(err, full) || p.Position() != 0 {
		t.Errorf("%v at %d", err, p.Position())
	}
	if err := <-nothing; err == nil {
		t.Error("refused output was acknowledged")
	}
}

// TestStdinWaitsForItsLimit lets the agent take 10 bytes, then 5 more.
func TestStdinWaitsForItsLimit(t *testing.T) {
	const text = "123456789012345"
	p := process(t, wire.Started{ID: "x", StdinLimit: 10}, func(t *testing.T, _ wire.Request, r *wire.Reader, w *wire.Writer) {
		f, err := r.Read()
		if err != nil || string(f.Payload) != text[:10] {
			t.Errorf("first %q, %v", f.Payload, err)
		}
		limit := int64(15)
		w.JSON(wire.KindReply, wire.Reply{StdinLimit: &limit})
		if f, err = r.Read(); err != nil || string(f.Payload) != text[10:] {
			t.Errorf("then %q, %v", f.Payload, err)
		}
		if f, err = r.Read(); err != nil || f.Kind != wire.KindEOF {
			t.Errorf("at last kind %d, %v", f.Kind, err)
		}
		w.JSON(wire.KindReply, wire.Reply{Exit: &wire.Exit{}})
	})
	wrote := make(chan error, 1)
	go func() {
		_, err := p.Write([]byte(text))
		wrote <- errors.Join(err, p.CloseStdin())
	}()
	if _, err := p.Output(within(t), ignore); err != nil {
		t.Error(err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	if _, err := p.Write([]byte("x")); err == nil {
		t.Error("stdin of a command that has ended")
	}
}

func TestCancelDetaches(t *testing.T) {
	p := process(t, wire.Started{ID: "x", StdinLimit: 1}, func(_ *testing.T, _ wire.Request, r *wire.Reader, _ *wire.Writer) {
		for {
			if _, err := r.Read(); err != nil {
				return
			}
		}
	})
	stuck := make(chan error, 1)
	go func() {
		_, err := p.Write([]byte("more than it takes"))
		stuck <- err
	}()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Output(ctx, ignore); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-stuck; err == nil {
		t.Error("a write went through after all")
	}
	ctx, hangUp := context.WithCancelCause(t.Context())
	bored := errors.New("bored")
	silent := scripted(t, func(_ *testing.T, _ wire.Request, r *wire.Reader, _ *wire.Writer) {
		hangUp(bored) // after the request has arrived
		r.Read()
	})
	if _, err := silent.Ping(ctx); !errors.Is(err, bored) {
		t.Error(err)
	}
}

// An agent's text reaches logs and callers short and printable: a program may have taken the agent over, and files can have any name.
func TestAgentsWords(t *testing.T) {
	c := scripted(t, answer(wire.Reply{Error: &wire.Error{
		Code: wire.CodeExists, Message: "a\x1b[2Jb\nc é" + strings.Repeat("x", 1<<20), Step: strings.Repeat("\x00", 1<<16),
	}}))
	_, err := c.Ping(within(t))
	var refused *wire.Error
	if !errors.As(err, &refused) || !strings.HasPrefix(refused.Message, "a?[2Jb?c é") {
		t.Fatalf("%.100q", err)
	}
	for _, text := range []string{refused.Message, refused.Step} {
		if len(text) > 2000 || strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("%d bytes: %.100q", len(text), text)
		}
	}
}
