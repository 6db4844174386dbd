// Package pool keeps sandboxes ready, so that a caller does not wait for one to be made. It decorates a runtime:
// Create hands out a ready sandbox where there is one of the right kind, and makes one where there is not.
//
// A ready sandbox is a blank (see [runtime.Claimer]): unowned, nothing has run in it, and its claimer is the only
// one who ever has it. There is no way back into the pool. What cannot be changed after birth makes the kind of a
// sandbox; limits are put in force when it is claimed.
//
// The pool never makes a request fail: without a ready sandbox, or if one fails, Create starts cold. New ones are made one at a
// time, when no caller has asked for a sandbox for a moment, so that a burst has the processors to itself. Kinds are learned from
// demand: the ones asked for last are kept ready, and a kind that is no longer asked for is evicted.
package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// Options bound a pool. The zero value is usable.
type Options struct {
	// Size is how many sandboxes of one kind are kept ready; 0 means 4.
	Size int
	// Max is how many are kept ready in all; 0 means 16. The kinds that were asked for last come first.
	Max int
	// Idle is how long a kind is kept after it was asked for; 0 means 10 minutes. Those of [Pool.Warm] stay.
	Idle time.Duration
	// MaxAge is how old a ready sandbox gets before another takes its place; 0 means an hour.
	MaxAge time.Duration
	// Lease is for how long a ready sandbox outlives a daemon that was killed; 0 means a minute.
	Lease time.Duration
	// QuietTime is for how long no caller must have asked for a sandbox before one is made; 0 means 20 ms.
	QuietTime time.Duration
	// ClaimTimeout is how long a ready sandbox may take to become its caller's, and to answer when it is looked after; 0 means
	// 5 s. One that does not is broken. Leave time for one that is only slow: a replacement would take longer.
	ClaimTimeout time.Duration
	// Logger logs what cannot be returned; nil discards.
	Logger *slog.Logger
}

// fill puts defaults in place of zeros, and of what is less.
func (o Options) fill() Options {
	o.Size = cmp.Or(max(o.Size, 0), 4)
	o.Max = cmp.Or(max(o.Max, 0), 16)
	o.Idle = cmp.Or(max(o.Idle, 0), 10*time.Minute)
	o.MaxAge = cmp.Or(max(o.MaxAge, 0), time.Hour)
	o.Lease = cmp.Or(max(o.Lease, 0), time.Minute)
	o.QuietTime = cmp.Or(max(o.QuietTime, 0), 20*time.Millisecond)
	o.ClaimTimeout = cmp.Or(max(o.ClaimTimeout, 0), 5*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Pool is a runtime with ready sandboxes. It implements [runtime.Runtime] and [runtime.Tester]; what it does not do
// itself, the runtime below does.
type Pool struct {
	runtime.Runtime
	claimer runtime.Claimer
	opts    Options
	log     *slog.Logger
	prefix  string // of its sandboxes' ids, and of no others
	ctx     context.Context
	stop    context.CancelFunc
	wake    chan struct{}
	work    sync.WaitGroup
	close   func() error

	mu     sync.Mutex // guards what follows
	kinds  map[string]*kind
	made   uint64    // sandboxes so far, to name them
	asked  time.Time // when a caller last asked for a sandbox, or got one
	pause  time.Time // until then nothing is made: there was no room
	asleep bool      // the keeper has nothing to do
	closed bool
	left   []*entry // that could not be destroyed
	stats  Stats
}

var (
	_ runtime.Runtime  = (*Pool)(nil)
	_ runtime.Tester   = (*Pool)(nil)
	_ runtime.Releaser = (*Pool)(nil)
)

// New puts a pool before a runtime, which must be a [runtime.Claimer]. It is empty until it is warmed, or something is
// asked for. The caller closes it before the runtime, and after all that create sandboxes.
func New(r runtime.Runtime, o Options) (*Pool, error) {
	claimer, ok := r.(runtime.Claimer)
	if !ok {
		return nil, fmt.Errorf("sandboxes of runtime %s cannot be made ahead", r.Name())
	}
	id := belljar.NewID()
	p := &Pool{
		Runtime: r, claimer: claimer, opts: o.fill(), prefix: "pool-" + id[len(id)-12:] + "-",
		wake: make(chan struct{}, 1), kinds: map[string]*kind{}, stats: newStats(),
	}
	p.log = p.opts.Logger
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.close = sync.OnceValue(p.drain)
	p.work.Go(p.keep)
	return p, nil
}

// Close destroys what is ready and returns when it is gone. Sandboxes that were handed out are not touched. It may be
// called twice.
func (p *Pool) Close() error { return p.close() }

func (p *Pool) drain() error {
	p.mu.Lock()
	p.closed = true
	left := p.takeAll(dropClosed)
	p.mu.Unlock()
	p.stop()
	p.work.Wait()
	return destroyAll(left)
}

// Unwrap returns the runtime below, for what it can do besides.
func (p *Pool) Unwrap() runtime.Runtime { return p.Runtime }

// Release implements [runtime.Releaser]. The kinds of that image are forgotten.
func (p *Pool) Release(_ context.Context, digest string) bool {
	if digest == "" {
		return false
	}
	p.mu.Lock()
	var left []*entry
	for key, k := range p.kinds {
		if k.blank.Root.Digest != digest {
			continue
		}
		for _, e := range k.ready {
			e.free()
			p.stats.Drops[dropDisplaced]++
			left = append(left, e)
		}
		k.ready = nil
		delete(p.kinds, key)
	}
	p.notify()
	p.mu.Unlock()
	p.destroyEach(left)
	return len(left) > 0
}

// Yield implements [runtime.Yielder]. More is made when some time has passed.
func (p *Pool) Yield() bool { return p.makeRoom(pauseMost) }

// Test implements [runtime.Tester], as far as the runtime below does.
func (p *Pool) Test(ctx context.Context) (runtime.Capabilities, error) {
	if t, ok := p.Runtime.(runtime.Tester); ok {
		return t.Test(ctx)
	}
	return p.Probe(ctx)
}

// List implements [runtime.Runtime]. What is ready here is unowned and the pool's to remove, so it is left out; what
// the pool of a daemon that was killed has left is not.
func (p *Pool) List(ctx context.Context) ([]string, error) {
	all, err := p.Runtime.List(ctx)
	var ids []string
	for _, id := range all {
		if !strings.HasPrefix(id, p.prefix) {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// Create implements [runtime.Runtime].
func (p *Pool) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	if spec.Workspace.ID != "" || spec.Workspace.Medium == runtime.MediumDisk {
		return p.Runtime.Create(ctx, spec) // it lives longer than its sandbox, and cannot be made ahead
	}
	defer p.rest()
	if e, as := p.take(spec); e != nil {
		box, err := p.claim(ctx, e, as)
		p.claimed(err)
		if err == nil {
			return box, nil
		}
		p.log.Warn("a ready sandbox could not be used", "sandbox", e.id, "err", err)
	}
	box, err := p.Runtime.Create(ctx, spec)
	if errors.Is(err, runtime.ErrFull) && p.makeRoom(pauseFirst) {
		return p.Runtime.Create(ctx, spec)
	}
	return box, err
}

// claim makes a ready sandbox the caller's. The agent takes its lease, and proves that it is there, while the rest is
// done. If that fails, nothing is left of it under the caller's name.
func (p *Pool) claim(ctx context.Context, e *entry, spec runtime.Spec) (runtime.Sandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.ClaimTimeout)
	defer cancel()
	lease, err := askLease(ctx, e.box, spec.Lease)
	if err != nil {
		p.background(func() { p.destroy(e) })
		return nil, err
	}
	defer lease.close()
	box, err := p.claimer.Claim(ctx, e.id, spec)
	if err != nil {
		return nil, err
	}
	if err := lease.done(); err != nil {
		return nil, errors.Join(err, box.Destroy(ctx))
	}
	return box, nil
}

// makeRoom destroys everything that is ready, for a sandbox that the host has no room for otherwise, and makes nothing during a pause. False
// if there was nothing.
func (p *Pool) makeRoom(pause time.Duration) bool {
	p.mu.Lock()
	if until := time.Now().Add(pause); until.After(p.pause) {
		p.pause = until
	}
	left := p.takeAll(dropDisplaced)
	p.notify()
	p.mu.Unlock()
	p.destroyEach(left)
	return len(left) > 0
}

// background does work that only Close waits for.
func (p *Pool) background(f func()) {
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.work.Go(f)
	}
	p.mu.Unlock()
	if closed {
		f()
	}
}
