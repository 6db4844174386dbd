package box_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
)

// slowStub is a sandbox whose agent responds to requests for a relay with answers, refuses every command, and records its requests.
type slowStub struct {
	stub
	answers chan wire.Reply
	serving sync.WaitGroup

	mu    sync.Mutex
	asked []wire.Op
}

func (s *slowStub) Dial(context.Context) (net.Conn, error) {
	host, guest := net.Pipe()
	s.serving.Go(func() { s.serve(guest) })
	return host, nil
}

func (s *slowStub) serve(c net.Conn) {
	defer c.Close()
	r, w := wire.NewReader(c), wire.NewWriter(c)
	var req wire.Request
	_, err := r.Read() // the hello
	if err == nil {
		var f wire.Frame
		if f, err = r.Read(); err == nil {
			err = f.JSON(&req)
		}
	}
	if err != nil {
		return
	}
	s.mu.Lock()
	s.asked = append(s.asked, req.Op)
	s.mu.Unlock()
	reply := wire.Reply{Error: &wire.Error{Code: wire.CodeInvalid, Message: "no commands here"}}
	if req.Op == wire.OpRelay {
		reply = <-s.answers
	}
	if w.JSON(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: wire.Version, Features: []string{wire.FeatureRelay}}) == nil {
		_ = w.JSON(wire.KindReply, reply)
	}
	_, _ = r.Read() // until the host closes it
}

func (s *slowStub) ops() []wire.Op {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// TestExecWaitsForTheRelay: a sandbox is made while its relay opens. No command reaches the agent before the relay is open, or after
// it was refused. Commands start once a later attempt has succeeded.
func TestExecWaitsForTheRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStub{answers: make(chan wire.Reply)}
		m := maker(scripted{create: func(context.Context, runtime.Spec) (runtime.Sandbox, error) { return s, nil }})
		p := placed(m)
		p.Egress = &egress.Policy{Ports: []uint16{443}}
		b, err := m.Make(t.Context(), box.Order{ID: "s", Placement: p, Made: func(runtime.Sandbox) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.serving.Wait()
		defer b.Destroy(t.Context())
		failed := make(chan error, 1)
		exec := func() {
			_, err := b.Exec(t.Context(), wire.Exec{}, "")
			failed <- err
		}
		expect := func(when, message string, want ...wire.Op) {
			t.Helper()
			var remote *wire.Error
			if err := <-failed; !errors.As(err, &remote) || remote.Message != message {
				t.Errorf("%s: %v", when, err)
			}
			if got := s.ops(); !slices.Equal(got, want) {
				t.Errorf("%s the agent was asked %q, not %q", when, got, want)
			}
		}
		go exec()
		synctest.Wait()
		if got := s.ops(); !slices.Equal(got, []wire.Op{wire.OpRelay}) || len(failed) > 0 {
			t.Fatalf("before an answer, the agent was asked %q, and %d commands have failed", got, len(failed))
		}
		s.answers <- wire.Reply{Error: &wire.Error{Code: wire.CodeExists, Message: "taken"}}
		expect("after a refusal", "taken", wire.OpRelay)
		exec()
		expect("after a refusal, again", "taken", wire.OpRelay)
		s.answers <- wire.Reply{Done: true} // for the next attempt
		synctest.Wait()
		exec()
		expect("with a relay", "no commands here", wire.OpRelay, wire.OpRelay, wire.OpExec)
	})
}

// oldStub is a sandbox whose agent has no relay.
type oldStub struct{ slowStub }

func (s *oldStub) Dial(context.Context) (net.Conn, error) {
	host, guest := net.Pipe()
	s.serving.Go(func() {
		defer guest.Close()
		r, w := wire.NewReader(guest), wire.NewWriter(guest)
		_, _ = r.Read()
		_ = w.JSON(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: wire.Version})
		_, _ = r.Read()
	})
	return host, nil
}

// TestSetFailsEachTime checks that a caller who sets a policy again, at once after it failed, gets the same error.
func TestSetFailsEachTime(t *testing.T) {
	s := &oldStub{}
	m := maker(scripted{create: func(context.Context, runtime.Spec) (runtime.Sandbox, error) { return s, nil }})
	b, err := m.Make(t.Context(), box.Order{ID: "s", Placement: placed(m), Made: func(runtime.Sandbox) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.serving.Wait()
	defer b.Destroy(t.Context())
	for i := range 2000 {
		if err := b.Network.Set(t.Context(), &egress.Policy{Ports: []uint16{443}}); belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable {
			t.Fatalf("attempt %d: %v", i, err)
		}
	}
}

// greedyStub is a sandbox whose agent requests as many connections as one sandbox may have.
type greedyStub struct {
	stub
	serving sync.WaitGroup
}

func (s *greedyStub) Dial(context.Context) (net.Conn, error) {
	host, guest := net.Pipe()
	s.serving.Go(func() {
		defer guest.Close()
		r, w := wire.NewReader(guest), wire.NewWriter(guest)
		_, _ = r.Read() // the hello
		_, _ = r.Read() // the request
		_ = w.JSON(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: wire.Version, Features: []string{wire.FeatureRelay}})
		_ = w.JSON(wire.KindReply, wire.Reply{Done: true})
		s.serving.Go(func() {
			for i := range wire.MuxCarried {
				_ = w.JSON(wire.KindReply, wire.Reply{Ask: &wire.Ask{ID: uint64(i), Open: &wire.Open{Host: "203.0.113.10", Port: 5432}}})
			}
		})
		for {
			if _, err := r.Read(); err != nil {
				return
			}
		}
	})
	return host, nil
}
