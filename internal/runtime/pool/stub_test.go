package pool_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

// stub is a runtime whose sandboxes are only an agent that answers, also in virtual time. Every step of it can be
// made to fail.
type stub struct {
	birth time.Duration // duration of a Create

	mu      sync.Mutex
	boxes   map[string]*box
	creates []runtime.Spec
	claims  int
	refuse  error // error of Create
	spoil   error // error of Claim
	deaf    bool  // agents do not answer
	stuck   bool  // interpreters do not start
	keeps   error // error of Destroy
	room    int   // number of boxes; 0 is unlimited
	flawed  int64 // a kind whose creations fail
}

type box struct {
	of    *stub
	boot  int // identifies the sandbox, whatever its name
	lease time.Duration
	gone  chan struct{}
	why   runtime.ExitReason

	id    string // guarded by the stub's mu, like the fields below
	parks int    // interpreters that were to start in it
}

func newStub() *stub { return &stub{birth: 8 * time.Millisecond, boxes: map[string]*box{}} }

func (s *stub) Name() string { return "stub" }

func (s *stub) Probe(context.Context) (runtime.Capabilities, error) {
	return runtime.Capabilities{Available: true}, nil
}

func (s *stub) Blank(spec runtime.Spec) runtime.Spec {
	spec.ID, spec.Lease, spec.Limits = "", 0, belljar.Limits{}
	return spec
}

func (s *stub) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	select {
	case <-time.After(s.birth):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.creates = append(s.creates, spec)
	switch {
	case s.refuse != nil:
		return nil, s.refuse
	case s.flawed != 0 && s.flawed == spec.Workspace.Bytes:
		return nil, errors.New("it cannot be made")
	case s.room > 0 && len(s.boxes) >= s.room:
		return nil, fmt.Errorf("make %s: %w", spec.ID, runtime.ErrFull)
	case s.boxes[spec.ID] != nil:
		return nil, fmt.Errorf("sandbox %s exists", spec.ID)
	}
	b := &box{of: s, id: spec.ID, boot: len(s.creates), lease: spec.Lease, gone: make(chan struct{})}
	s.boxes[spec.ID] = b
	return b, nil
}

func (s *stub) Claim(_ context.Context, from string, spec runtime.Spec) (runtime.Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims++
	b := s.boxes[from]
	if b == nil {
		return nil, runtime.ErrNotFound
	}
	delete(s.boxes, from)
	err := s.spoil
	if made := s.creates[b.boot-1]; !reflect.DeepEqual(s.Blank(spec), s.Blank(made)) {
		err = errors.New("it was made for something else")
	}
	if s.boxes[spec.ID] != nil {
		err = errors.New("exists")
	}
	if err != nil {
		b.end(runtime.ExitDestroyed)
		return nil, err
	}
	b.id = spec.ID
	s.boxes[b.id] = b
	return b, nil
}

func (s *stub) Attach(_ context.Context, id string) (runtime.Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.boxes[id]; b != nil {
		return b, nil
	}
	return nil, runtime.ErrNotFound
}

func (s *stub) List(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.boxes)), nil
}

func (s *stub) Remove(ctx context.Context, id string) error {
	if b, err := s.Attach(ctx, id); err == nil {
		return b.Destroy(ctx)
	}
	return nil
}

// set changes how the stub behaves.
func (s *stub) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *stub) living() []*box {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.boxes))
}

// end is called with the stub's mu held.
func (b *box) end(why runtime.ExitReason) {
	select {
	case <-b.gone:
	default:
		b.why = why
		close(b.gone)
		if b.of.boxes[b.id] == b {
			delete(b.of.boxes, b.id)
		}
	}
}

func (b *box) ID() string {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	return b.id
}

func (b *box) Dial(context.Context) (net.Conn, error) {
	select {
	case <-b.gone:
		return nil, runtime.ErrGone
	default:
	}
	host, agent := net.Pipe()
	go b.serve(agent)
	return host, nil
}

func (b *box) serve(conn net.Conn) {
	defer conn.Close()
	r, w := wire.NewReader(conn), wire.NewWriter(conn)
	var req wire.Request
	if f, err := r.Read(); err != nil || f.Kind != wire.KindHello {
		return
	}
	f, err := r.Read()
	if err != nil || f.JSON(&req) != nil {
		return
	}
	b.of.mu.Lock()
	deaf := b.of.deaf
	reply := wire.Reply{Done: true}
	switch req.Op {
	case wire.OpLease:
		b.lease = time.Duration(req.Lease) * time.Millisecond
	case wire.OpPing:
		reply = wire.Reply{Info: &wire.Info{}}
	case wire.OpPark:
		if b.parks++; b.of.stuck {
			reply = wire.Reply{Error: &wire.Error{Code: wire.CodeExecFailed}}
		}
	default:
		reply = wire.Reply{Error: &wire.Error{Code: wire.CodeUnsupported}}
	}
	b.of.mu.Unlock()
	if deaf {
		r.Read() // until the host closes the connection
		return
	}
	if w.JSON(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: wire.Version}) == nil {
		_ = w.JSON(wire.KindReply, reply)
	}
}

func (b *box) Usage(context.Context) (runtime.Usage, error) { return runtime.Usage{}, nil }

func (b *box) Wait(ctx context.Context) (runtime.Exit, error) {
	select {
	case <-b.gone:
		return runtime.Exit{Reason: b.why}, nil
	case <-ctx.Done():
		return runtime.Exit{}, ctx.Err()
	}
}

func (b *box) Destroy(context.Context) error {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	if b.of.keeps != nil {
		return b.of.keeps
	}
	b.end(runtime.ExitDestroyed)
	return nil
}
