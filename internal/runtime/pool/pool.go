// Package pool keeps sandboxes ready, so that a caller does not wait for one to be made. It decorates a runtime: Create returns a ready
// sandbox of the right kind, or makes one if there is none.
//
// A ready sandbox is a blank (see [runtime.Claimer]): it has no owner, and nothing has run in it. Only its claimer ever uses it; it never
// returns to the pool. The settings that cannot be changed after birth make up the kind of a sandbox; a claim puts the limits in force.
//
// The pool never makes a request fail: without a ready sandbox, or if one fails, Create starts cold. New sandboxes are made one at a time,
// after a moment without requests, so that a burst has the processors to itself. The pool learns kinds from demand: it keeps the most
// recently requested kinds ready, and evicts a kind that is no longer requested.
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
	// Max is how many are kept ready in total; 0 means 16. The most recently requested kinds come first.
	Max int
	// Idle is how long a kind is kept after its last request; 0 means 10 minutes. The kinds of [Pool.Warm] stay.
	Idle time.Duration
	// MaxAge is the age at which a ready sandbox is replaced; 0 means an hour.
	MaxAge time.Duration
	// Lease is how long a ready sandbox outlives a daemon that was killed; 0 means a minute.
	Lease time.Duration
	// QuietTime is how long there must be no request before a sandbox is made; 0 means 20 ms.
	QuietTime time.Duration
	// ClaimTimeout limits the time of a claim, and of a ready sandbox's answer to a ping; 0 means 5 s. A sandbox that takes longer counts as
	// broken. Leave time for one that is only slow: a replacement would take longer.
	ClaimTimeout time.Duration
	// Logger logs errors that cannot be returned; nil discards.
	Logger *slog.Logger
}

// fill replaces zeros and smaller values by defaults.
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

// Pool is a runtime with ready sandboxes. It implements [runtime.Runtime] and [runtime.Tester], and passes all other calls to the runtime
// below.
type Pool struct {
	runtime.Runtime
	claimer runtime.Claimer
	opts    Options
	log     *slog.Logger
	prefix  string // of its sandboxes' ids only
	ctx     context.Context
	stop    context.CancelFunc
	wake    chan struct{}
	work    sync.WaitGroup
	close   func() error

	mu     sync.Mutex // guards the fields below
	kinds  map[string]*kind
	made   uint64    // sandboxes so far, for their names
	asked  time.Time // when a caller last requested a sandbox, or got one
	pause  time.Time // until then nothing is made, for lack of room
	asleep bool      // the keeper has no work
	closed bool
	left   []*entry // entries that could not be destroyed
	stats  Stats
}

var (
	_ runtime.Runtime  = (*Pool)(nil)
	_ runtime.Tester   = (*Pool)(nil)
	_ runtime.Releaser = (*Pool)(nil)
)

// New puts a pool in front of a runtime, which must be a [runtime.Claimer]. It is empty until a call of Warm, or a request. The caller must
// close the pool before the runtime, and after all callers that create sandboxes.
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

// Close destroys the ready sandboxes and returns when they are gone. Claimed sandboxes are not touched. It may be called twice.
func (p *Pool) Close() error { return p.close() }

func (p *Pool) drain() error {
	p.mu.Lock()
	p.closed = true
	left := p.takeAll(dropClosed)
	p.mu.Unlock()
	p.stop()
	p.work.Wait()
	p.mu.Lock()
	left = append(left, p.left...) // no birth follows that would retry these
	p.left = nil
	p.mu.Unlock()
	return destroyAll(left)
}

// Unwrap returns the runtime below, for its optional interfaces.
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

// Yield implements [runtime.Yielder]. The pool makes new sandboxes after some time.
func (p *Pool) Yield() bool { return p.makeRoom(pauseMost) }

// Test implements [runtime.Tester], if the runtime below does.
func (p *Pool) Test(ctx context.Context) (runtime.Capabilities, error) {
	if t, ok := p.Runtime.(runtime.Tester); ok {
		return t.Test(ctx)
	}
	return p.Probe(ctx)
}

// List implements [runtime.Runtime]. It leaves out the ready sandboxes of this pool, which have no owner, but not those of a killed daemon's
// pool.
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
		return p.Runtime.Create(ctx, spec) // the folder outlives its sandbox, which cannot be made in advance
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

// claim makes a ready sandbox the caller's. Meanwhile the agent gets the caller's lease, and its answer proves that it lives. If that fails,
// nothing is left under the caller's name.
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

// makeRoom destroys all ready sandboxes, for a sandbox that the host has no other room for, and makes none during a pause. False if there
// were none.
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

// background runs work that only Close waits for.
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
