package service

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/queue"
	"github.com/belljar/belljar/internal/service/stdin"
	"github.com/belljar/belljar/internal/store"
)

// run is one run under way: what it was asked, where it stands.
type run struct {
	id     string
	owner  string
	caller belljar.Caller // who asked
	plan   *plan          // nil once the run has ended
	log    logbook.Log
	kept   *admission.Allowance // of its owner's quota, for the log; nil if that is not counted
	ticket *queue.Ticket        // its place in the queue, then its slot

	uncharge func()      // its request counts no more; nil for one that does not count, may be called twice
	unexpire func() bool // lets its time in the queue not end it

	ctx   context.Context // ends when the run is to stop; its cause says why
	stop  context.CancelCauseFunc
	done  chan struct{} // closed when the run's end is on record, and its log too
	stuck chan struct{} // closed when it has ended and cannot go on record; unkept says why
	left  chan struct{} // closed when its command is left to the next process
	told  chan struct{} // closed when its agent has been told to end its command
	tell  sync.Once     // closes told

	mu      sync.Mutex
	state   belljar.Run
	image   *store.Image // of a sandbox of its own, for the record
	input   *stdin.Input // standard input of an interactive run; nil until somebody asks for it
	fault   error        // what kept a frame of ours out of the log; nil if nothing did
	unkept  error        // what kept its end from being on record at first
	lastSeq uint64       // of the end event; 0 before that

	// writing orders what is said of the run while it is under way: notes on the record, heartbeats in the log.
	writing sync.Mutex
	over    bool            // nothing more is said
	noted   bool            // a note is due
	unnote  func() bool     // stops it
	rest    func() bool     // stops the heartbeat
	draft   bool            // it is not on record before its end, or before it takes longer
	undraw  func() bool     // lets it stay so
	short   []belljar.Frame // the log of a draft that has ended, if it is short; set before done is closed
}

// newRun returns a run of a plan that is queued.
func (s *Service) newRun(caller belljar.Caller, p *plan, id string, created time.Time) *run {
	r := &run{id: id, owner: caller.ID, caller: caller, plan: p, done: make(chan struct{}), stuck: make(chan struct{}), left: make(chan struct{})}
	r.told = make(chan struct{})
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	r.state = belljar.Run{
		ID: id, UserID: caller.ID, SessionID: p.request.SessionID, Phase: belljar.PhaseQueued,
		SpecVersion: p.request.SpecVersion, Runtime: p.Host.Name(), RuntimeVersion: p.Caps.Version,
		Isolation: string(p.Caps.Isolation), RuntimeReason: p.Why,
		BaseImage: p.Image.Ref, ImageDigest: p.Image.Digest, PolicyHash: s.policy,
		Labels: p.request.Labels, Interactive: p.request.Interactive, ResumeFromSeq: p.request.ResumeFromSeq,
		CreatedAt: created, LimitsEnforced: enforced(p.Caps),
	}
	if p.session == nil {
		r.image = placement.NoteImage(p.Image)
	}
	if p.build != nil {
		p.aim(id)
	}
	r.state.Command, r.state.CommandTruncated = briefCommand(p.argv)
	return r
}

// know notes what the image of its sandbox is.
func (r *run) know(root runtime.Root) {
	r.plan.Image = root // whoever carries the run is the only one to look
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.ImageDigest = root.Digest; r.plan.session == nil {
		r.image = placement.NoteImage(root)
	}
}

// imageNoted is what is put on record of its image.
func (r *run) imageNoted() *store.Image {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.image
}

// discharge says that the run's request counts no more. It may be called twice.
func (r *run) discharge() {
	if r.uncharge != nil {
		r.uncharge()
	}
}

// snapshot is the run as it stands.
func (r *run) snapshot() belljar.Run {
	r.mu.Lock()
	s := r.state
	r.mu.Unlock()
	s.Command = slices.Clone(s.Command)
	s.Warnings = slices.Clone(s.Warnings)
	if s.Phase == belljar.PhaseQueued && r.ticket != nil {
		start := r.ticket.Start().UTC().Truncate(time.Microsecond)
		s.EstimatedStartTime = &start
	}
	return s
}

// ran is for how many seconds the command has run at a time.
func (r *run) ran(now time.Time) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.StartedAt == nil {
		return 0
	}
	return now.Sub(*r.state.StartedAt).Seconds()
}

// resumable reports whether the run can still begin after a restart: all of its request is on record, and so is its
// session.
func (r *run) resumable() bool {
	p := r.plan
	return p.request.Upload == nil && p.request.Stdin == nil && (p.session == nil || p.session.service.stays())
}

// settled reports whether the run's command runs in a session, where the next process finds it.
func (r *run) settled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plan != nil && r.plan.session != nil && r.state.Phase == belljar.PhaseRunning
}
