package run

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/approval"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/outcome"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/queue"
	"github.com/belljar/belljar/internal/service/stdin"
	"github.com/belljar/belljar/internal/store"
)

// Run is one live run: its request and its state.
type Run struct {
	id     string
	owner  string
	caller belljar.Caller // the sender of the request
	plan   *plan          // nil after the run has ended
	log    logbook.Log
	kept   *admission.Allowance // the owner's quota for the log; nil if that is not counted
	ticket *queue.Ticket        // its place in the queue, then its slot
	asked  *approval.Entry      // its pending approval; nil if it needs none, or has it
	parked bool                 // the ticket takes a place only after the approval

	ordered        bool        // it is a command of a shell: its time in the queue has no bound
	releaseBudget  func()      // stops counting its request; nil for one that does not count, may be called twice
	cancelQueueTTL func() bool // stops the timer of its time in the queue

	ctx      context.Context // ends when the run must stop; its cause is the reason
	stop     context.CancelCauseFunc
	done     chan struct{} // closed when the run's end and its log are on record
	stuck    chan struct{} // closed when it has ended and its end cannot be recorded; recordErr is the reason
	detached chan struct{} // closed when its command is left to the next process
	endSent  chan struct{} // closed when its agent has the order to end its command, or its command has ended and artifacts are copied
	sendEnd  sync.Once     // closes endSent
	muted    atomic.Bool   // its log is cut: the agent no longer sends what its command prints

	mu        sync.Mutex
	state     belljar.Run
	image     *store.Image // of a sandbox of its own, for the record
	below     string       // folder of the workspace's initial files, for the record; "" for none
	input     *stdin.Input // standard input of an interactive run; nil until it is needed
	fault     error        // why a frame of Belljar is missing from the log; nil if none is
	recordErr error        // why the first attempt to record its end failed
	lastSeq   uint64       // seq of the end event; 0 before that

	// writing orders updates of the live run: phases on record, heartbeats in the log.
	writing       sync.Mutex
	over          bool        // no more updates
	due           bool        // its record must be updated
	cancelFlush   func() bool // stops the timer of that update
	stopHeartbeat func() bool // stops the timer of the heartbeat
	draft         bool        // it is recorded only at its end, or when it takes longer
}

// create returns a queued run of a plan.
func (s *Runs) create(caller belljar.Caller, p *plan, id string, created time.Time) *Run {
	r := &Run{
		id: id, owner: caller.ID, caller: caller, plan: p, ordered: p.request.Shell != nil,
		done: make(chan struct{}), stuck: make(chan struct{}), detached: make(chan struct{}), endSent: make(chan struct{}),
	}
	r.cancelQueueTTL = func() bool { return false }
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	r.state = belljar.Run{
		ID: id, UserID: caller.ID, SessionID: p.request.SessionID, Phase: belljar.PhaseQueued,
		SpecVersion: p.request.SpecVersion, Runtime: p.Host.Name(), RuntimeVersion: p.Caps.Version,
		Isolation: string(p.Caps.Isolation), RuntimeReason: p.Why,
		BaseImage: p.Image.Ref, ImageDigest: p.Image.Digest, PolicyHash: s.opts.PolicyHash,
		Labels: p.request.Labels, Interactive: p.request.Interactive, ResumeFromSeq: p.request.ResumeFromSeq,
		CreatedAt: created, LimitsEnforced: placement.Enforced(p.Caps), Template: p.template.Name, SnapshotDigest: cmp.Or(p.snapshot.Digest, p.template.SnapshotDigest),
	}
	if p.session != nil {
		r.state.SnapshotDigest = p.session.Snapshot().SnapshotDigest
	}
	if p.request.Context != "" {
		r.state.Context = &belljar.ContextRun{Name: p.request.Context, Language: p.language}
	}
	if p.session == nil {
		r.state.Workspace = p.Workspace
		r.image = placement.NoteImage(p.Image)
	}
	if p.build != nil {
		p.aim(id)
	}
	r.state.Command, r.state.CommandTruncated = outcome.TruncateCommand(p.argv)
	r.state.EnvNames, r.state.Network = envNames(p.request.Env), askedNetwork(p.request.RunSpec)
	r.state.Warnings = admission.Uncovered(p.Egress)
	return r
}

// mostNames is how many bytes of variable names are recorded.
const mostNames = 16 << 10

// envNames returns the names of variables, sorted, up to mostNames.
func envNames(env map[string]string) []string {
	names := slices.Sorted(maps.Keys(env))
	size := 0
	for i, name := range names {
		if size += len(name); size > mostNames {
			return names[:i]
		}
	}
	return names
}

// askedNetwork returns the requested network of a run with its own sandbox, nil for none.
func askedNetwork(spec belljar.RunSpec) *belljar.NetworkSpec {
	if spec.SessionID != "" || spec.NetworkPolicy != belljar.NetworkAllowlist {
		return nil
	}
	return &belljar.NetworkSpec{NetworkPolicy: spec.NetworkPolicy, Egress: spec.Egress}
}

// ID returns the run's id.
func (r *Run) ID() string { return r.id }

// Owner returns the run's user.
func (r *Run) Owner() string { return r.owner }

// setImage sets the image of its sandbox.
func (r *Run) setImage(root runtime.Root) {
	r.plan.Image = root // only the goroutine that executes the run reads it
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.ImageDigest = root.Digest; r.plan.session == nil {
		r.image = placement.NoteImage(root)
	}
}

// setFiles sets the digest of the workspace's initial files, since the template may have been rebuilt after the admission, and their folder,
// unless they are copied.
func (r *Run) setFiles(digest, below string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.SnapshotDigest, r.below = digest, below
}

// noted returns the recorded part of its image, and the folder of the workspace's initial files.
func (r *Run) noted() (image *store.Image, below string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.image, r.below
}

// releaseRequest stops counting the run's request. It may be called twice.
func (r *Run) releaseRequest() {
	if r.releaseBudget != nil {
		r.releaseBudget()
	}
}

// Snapshot returns the run's current state, without LastSeq.
func (r *Run) Snapshot() belljar.Run {
	r.mu.Lock()
	s := r.state
	r.mu.Unlock()
	s.Command = slices.Clone(s.Command)
	s.Warnings = slices.Clone(s.Warnings)
	if pending := s.Approval != nil && s.Approval.State == belljar.ApprovalPending; s.Phase == belljar.PhaseQueued && r.ticket != nil && !pending {
		s.EstimatedStartTime = new(r.ticket.Start().UTC().Truncate(time.Microsecond))
	}
	return s
}

// State returns the run's current state.
func (r *Run) State() belljar.Run {
	s := r.Snapshot()
	s.LastSeq = r.visibleSeq()
	return s
}

// visibleSeq returns the seq of the last frame that readers of the run's log can have seen: the end event is held back.
func (r *Run) visibleSeq() uint64 {
	last := r.log.Last()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lastSeq > 0 && !r.state.Phase.Terminal() {
		last = min(last, r.lastSeq-1)
	}
	return last
}

// Wait waits until the run has ended, or is left to the next process.
func (r *Run) Wait(ctx context.Context) {
	select {
	case <-r.done:
	case <-r.detached:
	case <-ctx.Done():
	}
}

// ran returns for how many seconds the command has run.
func (r *Run) ran(now time.Time) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.StartedAt == nil {
		return 0
	}
	return now.Sub(*r.state.StartedAt).Seconds()
}

// resumable reports whether the run can still begin after a restart: its whole request is on record, and so is its session.
func (r *Run) resumable() bool {
	p := r.plan
	return p.request.Upload == nil && p.request.Input == nil && (p.session == nil || p.session.Survives())
}

// inSession reports whether the run's command runs in a session, where the next process can find it.
func (r *Run) inSession() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plan != nil && r.plan.session != nil && r.state.Phase == belljar.PhaseRunning
}

// belongsTo reports whether a run belongs to a session.
func (r *Run) belongsTo(session string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plan != nil && r.plan.session != nil && r.plan.session.ID() == session
}

// waiting reports whether the run is queued.
func (r *Run) waiting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Phase == belljar.PhaseQueued
}

// stopQueued stops a run for the end of the server, if it is queued; false if it is not.
func (r *Run) stopQueued() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	queued := r.state.Phase == belljar.PhaseQueued
	if queued {
		r.stop(fault.ErrShutdown)
	}
	return queued
}

// NotFound returns the error for a run that does not exist, or that the caller may not see.
func NotFound(id string) error {
	return &belljar.Error{
		Code: belljar.CodeNotFound, Message: fmt.Sprintf("run %q does not exist", id),
		Details: map[string]any{"run_id": id},
	}
}
