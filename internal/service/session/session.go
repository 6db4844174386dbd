package session

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/kernel"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/queue"
	"github.com/belljar/belljar/internal/service/secret"
)

// Session is a live session: a sandbox that a caller keeps, its current uses, and its expiry. It leaves the table when its sandbox is
// removed and its end is on record.
type Session struct {
	all      *Sessions
	id       string
	caller   belljar.Caller // its creator; ID is its owner
	spec     belljar.SessionSpec
	sealed   []byte               // its secrets, for its record
	used     secret.Used          // the stored ones; for the event of their use
	place    *placement.Placement // of its sandbox; runs in the session share it
	scope    string               // its key in the table; "" for none
	runs     *queue.Queue         // of its runs; their owners' bounds apply across all queues
	shell    *queue.Queue         // of its shell's commands, which run one at a time
	gitPlace *placement.Placement // of the side sandbox that clones its repository; nil for none
	from     *original            // of a copy; nil for other sessions

	Network  Network  // its network policy
	Approval Approval // its pending approval
	Contexts *kernel.Table

	ctx      context.Context // ends when the session ends; its cause is the reason
	stop     context.CancelCauseFunc
	ready    chan struct{}           // closed when the sandbox is usable, or never will be
	over     chan struct{}           // closed when its sandbox is removed and its end is on record
	detached chan struct{}           // closed when it is left to the next process
	inside   context.Context         // ends with the session, or when its sandbox is released; guarded by mu, like the next
	leave    context.CancelCauseFunc // ends it

	writing      sync.Mutex  // orders writes to its record; taken before mu
	draft        bool        // it is not on record; guarded by writing, like the next
	cancelInsert func() bool // stops the timer that records a draft

	mu     sync.Mutex
	state  belljar.Session // except its times, which are in life
	life   lifespan
	box    *box.Box      // nil until ready, and permanently if there was a fault
	fault  error         // why the sandbox was not made
	made   bool          // the event of its creation is recorded
	uses   int           // running runs, uploads and file operations
	unused chan struct{} // closed with the last use; nil unless there is a waiter
	missed int           // consecutive pings without a response
	below  string        // folder of the sandbox's initial files; "" for none. It is recorded
	asleep hibernation
}

// create returns a session of an admitted request. It has no sandbox yet.
func (s *Sessions) create(caller belljar.Caller, spec belljar.SessionSpec, p *placement.Placement, t terms) *Session {
	now := s.now()
	x := s.bare(belljar.NewID(), caller, spec, p, t)
	x.life.touch(now)
	x.life.ends = now.Add(t.lifetime)
	x.scope = scopeKey(spec.Scope, x.id)
	x.state = belljar.Session{
		ID: x.id, UserID: caller.ID, State: belljar.SessionStarting, SpecVersion: spec.SpecVersion,
		Runtime: p.Host.Name(), RuntimeVersion: p.Caps.Version,
		Isolation: string(p.Caps.Isolation), RuntimeReason: p.Why, BaseImage: p.Image.Ref, ImageDigest: p.Image.Digest,
		PolicyHash: s.opts.PolicyHash, Labels: spec.Labels, CreatedAt: now, ScopeKey: x.scope,
		Limits: p.InForce(), LimitsEnforced: placement.Enforced(p.Caps), Warnings: admission.Uncovered(p.Egress), Workspace: p.Workspace,
	}
	x.state.ExpiresAt = x.life.expiry(now, x.uses > 0)
	return x
}

// bare returns a session without its state.
func (s *Sessions) bare(id string, caller belljar.Caller, spec belljar.SessionSpec, p *placement.Placement, t terms) *Session {
	x := &Session{
		all: s, id: id, caller: caller, spec: spec, life: lifespan{terms: t}, place: p,
		runs: s.opts.Queue.Branch(t.concurrent, s.opts.QueueLength), shell: s.opts.Queue.Branch(1, s.opts.QueueLength),
		ready: make(chan struct{}), over: make(chan struct{}), detached: make(chan struct{}),
	}
	x.Network.of, x.Approval.of, x.asleep.of = x, x, x
	x.Contexts = kernel.NewTable(s.opts.Contexts, func() *queue.Queue { return s.opts.Queue.Branch(1, s.opts.QueueLength) })
	x.ctx, x.stop = context.WithCancelCause(context.Background())
	return x
}

// scopeKey returns the key of a scope in the table. An isolated session cannot be found by its scope, but it still belongs to its
// workflow, agent, user or thread.
func scopeKey(scope belljar.Scope, id string) string {
	if scope.Key == belljar.IsolatedKey && scope.Namespace != "" {
		return scope.Prefix() + belljar.IsolatedKey + ":" + id
	}
	return scope.String()
}

// ID returns the session's id.
func (x *Session) ID() string { return x.id }

// Owner returns the user who made the session.
func (x *Session) Owner() string { return x.caller.ID }

// Env returns the environment that the session adds to its commands.
func (x *Session) Env() map[string]string { return x.spec.Env }

// Queue returns the queue of the session's runs, or that of its shell.
func (x *Session) Queue(shell bool) *queue.Queue {
	if shell {
		return x.shell
	}
	return x.runs
}

// Placement returns the placement of the session's sandbox, as far as it is known.
func (x *Session) Placement() placement.Placement {
	x.mu.Lock()
	defer x.mu.Unlock()
	return *x.place
}

// setImage sets the image that was pulled for its sandbox.
func (x *Session) setImage(root runtime.Root) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.place.Image, x.state.ImageDigest = root, root.Digest
}

// Survives reports whether the session outlives the process.
func (x *Session) Survives() bool { return x.all.opts.Survive }

// SetCwd sets the directory of the session's shell. The first time is recorded immediately: without it, the next process saves no shell.
func (x *Session) SetCwd(dir string) {
	x.mu.Lock()
	first := x.state.Cwd == "" && dir != ""
	x.state.Cwd = dir
	x.mu.Unlock()
	if !first {
		return
	}
	if err := note(x); err != nil {
		x.all.opts.Log.Warn("shell of a session cannot be recorded", "session_id", x.id, "err", err)
	}
}

// CheckIsolation refuses a request in the session if its sandbox is weaker than the caller's current policy permits.
func (x *Session) CheckIsolation(caller belljar.Caller, request admission.Request) error {
	return x.all.opts.Rules.CheckIsolation(caller, x.id, x.Placement().Caps.Isolation, x.spec.TrustLevel, request)
}

// Snapshot returns the session's current state.
func (x *Session) Snapshot() belljar.Session {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.state
	if !s.State.Ended() {
		s.ExpiresAt = x.life.expiry(x.all.now(), x.asleep.inUse())
	}
	s.LastActivityAt = later(x.life.used, x.life.alive)
	s.Labels, s.LimitsEnforced = maps.Clone(s.Labels), maps.Clone(s.LimitsEnforced)
	return s
}

// Acquire counts a use of the session's sandbox, so that it does not expire meanwhile, and returns it. Each use ends with Release.
// Acquire waits for a session that is being made, and resumes a hibernated one. For an ended session the error is
// [belljar.CodeConflict].
func (x *Session) Acquire(ctx context.Context) (*box.Box, error) {
	select {
	case <-x.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for {
		b, transition, err := x.asleep.enter()
		if transition == nil {
			return b, err
		}
		if err := x.asleep.await(ctx, transition); err != nil {
			return nil, err
		}
	}
}

// Release ends a use. The session's TTL begins with the end of the last one.
func (x *Session) Release() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.uses--
	x.life.touch(x.all.now())
	if x.uses > 0 {
		return
	}
	if x.unused != nil {
		close(x.unused)
		x.unused = nil
	}
	if !x.state.State.Ended() {
		x.setTimer(x.all.now())
	}
}

// whenUnused returns a channel that is closed when the session is not in use. Several callers may wait. The caller holds the lock.
func (x *Session) whenUnused() <-chan struct{} {
	if x.unused == nil {
		x.unused = make(chan struct{})
	}
	unused := x.unused
	if x.uses == 0 {
		close(unused)
		x.unused = nil
	}
	return unused
}

// AddRun counts a run towards the session's maximum. Revert it with RemoveRun if the run does not start.
func (x *Session) AddRun() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch most := x.life.runs; {
	case x.state.State.Ended():
		return Unusable(x.state)
	case most > 0 && x.state.Runs >= most:
		return &belljar.Error{
			Code: belljar.CodeQuotaExceeded, Message: fmt.Sprintf("the session has had all of its %d runs", most),
			Details: map[string]any{"quota": "max_runs", "used": x.state.Runs, "limit": most, "session_id": x.id},
			Hint:    "make a session with a larger max_runs",
		}
	}
	x.state.Runs++
	x.life.touch(x.all.now())
	return nil
}

// RemoveRun reverts AddRun for a run that did not start.
func (x *Session) RemoveRun() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.state.Runs--
}

// Unusable returns why a session is not usable: it has ended, or was forced to hibernate.
func Unusable(s belljar.Session) *belljar.Error {
	if !s.State.Ended() {
		return &belljar.Error{
			Code: belljar.CodeConflict, Message: fmt.Sprintf("session %s was forced to hibernate, which ended what ran in it", s.ID),
			Details: map[string]any{"session_id": s.ID, "state": string(s.State)}, Hint: "the next request wakes it",
		}
	}
	return &belljar.Error{
		Code: belljar.CodeConflict, Message: fmt.Sprintf("session %s has ended (state: %s)", s.ID, s.State),
		Details: map[string]any{"session_id": s.ID, "state": string(s.State)},
		Hint:    "make a new session, or open its scope again",
	}
}

// NotFound returns the error for a session that does not exist, or that the caller may not see.
func NotFound(id string) *belljar.Error {
	return &belljar.Error{
		Code: belljar.CodeNotFound, Message: fmt.Sprintf("session %q does not exist", id),
		Details: map[string]any{"session_id": id},
	}
}
