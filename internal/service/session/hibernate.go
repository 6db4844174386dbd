package session

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/store"
)

// A session in which nothing runs may hibernate: its files and its shell are saved, along with its memory and processes if the runtime
// supports that, and its sandbox is destroyed. It stays in the table, and its TTL continues. The next use resumes it (wake.go).
//
// The order makes a crash harmless at every point. To hibernate, the snapshots are stored, then the session is recorded as hibernated,
// then the sandbox is removed. To resume, the sandbox is filled, then the session is recorded as active, then the snapshots are removed.
// The next process removes everything that the record does not name.

// hibernation is the state of a session's transitions into and out of hibernation. The session's lock guards it.
type hibernation struct {
	of         *Session
	saved      *store.Hibernation // nil while the session has a sandbox
	release    func()             // releases its image and packages, while it has no sandbox
	transition *transition        // the running transition; nil for none
	resting    bool               // it hibernates because it is idle, or waits for its turn
}

// transition is a change into or out of hibernation.
type transition struct {
	over chan struct{}
	stop context.CancelCauseFunc

	// The session's lock guards these fields. err is set before over is closed.
	final   bool // a use waits for its end; a use cancels a transition that is not final
	waiters int  // uses that wait for it
	err     error
}

var (
	errUsed      = errors.New("the session was used meanwhile")
	errInUse     = errors.New("it is in use")
	errNoWaiters = errors.New("no request waits for the session any longer")
)

const (
	// hibernateTime bounds a hibernation without a waiting caller.
	hibernateTime = 10 * time.Minute
	// leaveTime is how long a run may take to leave its session, since its caller has the response earlier. The check repeats every leaveStep.
	leaveTime, leaveStep = 3 * time.Second, 5 * time.Millisecond
)

// refusal returns the error for a session that does not hibernate.
func refusal(x *Session, rule, message, hint string) error {
	return &belljar.Error{
		Code: belljar.CodeConflict, Message: fmt.Sprintf("session %s cannot hibernate: %s", x.id, message),
		Details: map[string]any{"session_id": x.id, "rule": rule}, Hint: hint,
	}
}

const forceHint = "force ends what runs in it (belljar session hibernate --force)"

// Hibernate saves a session, and releases its sandbox until the next use. Unless it is forced, it fails if something runs in the session, or uses it
// meanwhile.
func Hibernate(ctx context.Context, x *Session, caller belljar.Caller, spec belljar.HibernateSpec) (belljar.Session, error) {
	select {
	case <-x.ready:
	case <-ctx.Done():
		return belljar.Session{}, context.Cause(ctx)
	}
	for late := time.Now().Add(leaveTime); ; {
		active, _ := x.all.opts.Runs.ActiveIn(x.id)
		ctx, stop := context.WithCancelCause(ctx)
		t, begun, err := x.asleep.begin(stop, active, spec.Force)
		switch {
		case begun:
			unhook := context.AfterFunc(x.ctx, func() { stop(context.Cause(x.ctx)) })
			err = x.asleep.run(ctx, t, caller, spec.Force)
			unhook()
			x.asleep.end(t, nil) // err is this caller's: a use that waits has the sandbox, or resumes the session
		case errors.Is(err, errInUse) && !active && time.Now().Before(late):
			select {
			case <-time.After(leaveStep):
				stop(nil)
				continue
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		case errors.Is(err, errInUse):
			err = refusal(x, "in_use", err.Error(), forceHint)
		case t != nil:
			select {
			case <-t.over:
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		stop(nil)
		if err != nil || t == nil || begun {
			return x.Snapshot(), err
		}
	}
}

// begin begins a transition, or returns the one that must end first. It returns neither for a hibernated session.
func (h *hibernation) begin(stop context.CancelCauseFunc, active, force bool) (t *transition, begun bool, err error) {
	x := h.of
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.state.State.Ended() || x.box == nil && h.saved == nil:
		return nil, false, Unusable(x.state)
	case h.transition != nil:
		return h.transition, false, nil
	case h.saved != nil:
		return nil, false, nil
	case hasFiles(x.spec.Secrets):
		return nil, false, refusal(x, "secrets", "it was given a secret file, which its files may have a copy of", "end it, or keep it")
	case x.place.Workspace.OnDisk():
		return nil, false, refusal(x, "workspace", "its workspace is on a disk", "end it: a named volume stays")
	case x.place.Caps.Isolation == runtime.IsolationRemote:
		return nil, false, refusal(x, "runtime", "its files stay where they are, and others may change them meanwhile", "end it: the files stay")
	case !force && (active || x.uses > 0):
		return nil, false, errInUse
	}
	h.transition = &transition{over: make(chan struct{}), stop: stop, final: force}
	return h.transition, true, nil
}

// hasFiles reports whether a secret is a file in the sandbox.
func hasFiles(secrets map[string]belljar.Secret) bool {
	for _, s := range secrets {
		if !s.Brokered() {
			return true
		}
	}
	return false
}

// end ends a transition, and passes its outcome to the waiting uses.
func (h *hibernation) end(t *transition, err error) {
	x := h.of
	x.mu.Lock()
	defer x.mu.Unlock()
	if h.transition, t.err = nil, err; !x.state.State.Ended() {
		x.setTimer(x.all.now())
	}
	close(t.over)
}

// sleeper is a use by the hibernation itself, which must not count as activity.
type sleeper struct{ Use }

// KeepAlive does nothing.
func (sleeper) KeepAlive() {}

// Context ends only with the session: force ends the other uses first.
func (s sleeper) Context() context.Context { return s.session.ctx }

// run is one transition into hibernation.
func (h *hibernation) run(ctx context.Context, t *transition, caller belljar.Caller, force bool) error {
	x := h.of
	begun := x.all.opts.Clock.Now()
	x.mu.Lock()
	u, until, used := Use{x.box, x, x.inside}, x.life.ends, x.uses > 0
	x.mu.Unlock()
	active, _ := x.all.opts.Runs.ActiveIn(x.id)
	var contexts bool
	var err error
	if force && (used || active) {
		err = x.all.opts.Snapshots.Rehearse(ctx, sleeper{u}, until)
	}
	if err == nil {
		contexts, err = h.quiet(ctx, u, caller, force)
	}
	if err != nil {
		return h.failed(ctx, u, err)
	}
	rest, err := x.all.opts.Snapshots.Hibernate(ctx, sleeper{u}, until, force, contexts)
	how := &belljar.Hibernation{Live: rest.Unlive == nil, Reason: unlive(rest.Unlive)}
	if err == nil {
		if err = h.giveUp(ctx, t, u.box, &store.Hibernation{Shell: rest.Shell, Contexts: x.Contexts.Save()}, how); err != nil {
			err = errors.Join(err, x.all.opts.Snapshots.Drop(context.WithoutCancel(ctx), x.id))
		}
	}
	if err != nil {
		return h.failed(ctx, u, err)
	}
	if belljar.CodeOf(rest.Unlive) == belljar.CodeInternal && rest.Unlive != nil {
		x.all.opts.Log.Warn("processes of a session cannot be saved", "session_id", x.id, "err", rest.Unlive)
	}
	state := x.Snapshot()
	x.all.opts.Record(event.Event{
		Name: event.SessionHibernated, Caller: caller, Session: &state, Runtime: state.Runtime, Took: x.all.opts.Clock.Now().Sub(begun),
		Count: rest.Files.Bytes, Files: int64(rest.Files.Files),
		Detail: map[string]string{"digest": rest.Files.Digest, "live": strconv.FormatBool(how.Live)},
	})
	return nil
}

// unlive returns why a session's processes are not saved, or not continued; "" for nil.
func unlive(err error) string {
	var own *belljar.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &own) && own.Code != belljar.CodeInternal:
		return own.Message
	}
	return "its processes could not be saved"
}

// quiet ensures that nothing runs in the session: with force it ends its uses. contexts reports that there are idle interpreters, which must be saved.
func (h *hibernation) quiet(ctx context.Context, u Use, caller belljar.Caller, force bool) (contexts bool, err error) {
	x := h.of
	if !force {
		n, err := agent.Programs(ctx, u.box.Agent)
		idle := 0
		if n > 0 && x.all.opts.Snapshots.RefuseLive(u) == nil {
			idle, err = idleContexts(ctx, u.box)
		}
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return false, refusal(x, "agent", "its agent is of an older version than the server", "make a new session")
		case err != nil:
			return false, fmt.Errorf("ask for the session's programs: %w", err)
		case n > idle:
			what := fmt.Sprintf("%d processes run in it", n)
			if n == 1 {
				what = "a process runs in it"
			}
			return false, refusal(x, "in_use", what+": of contexts, terminals, or in the background", forceHint)
		}
		return idle > 0, nil
	}
	x.all.opts.Runs.StopIn(x.id, fault.Canceled(caller))
	x.leave(errHibernates)
	for {
		x.mu.Lock()
		unused, used := x.whenUnused(), x.uses > 0
		x.mu.Unlock()
		if !used {
			return false, nil
		}
		select {
		case <-unused:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// idleContexts returns the number of idle interpreters. Each is one process.
func idleContexts(ctx context.Context, b *box.Box) (n int, err error) {
	shells, err := agent.Shells(ctx, b.Agent)
	for _, s := range shells {
		if s.Alive && !s.Busy {
			n++
		}
	}
	return n, err
}

// errHibernates ends the uses of a session that is forced to hibernate.
var errHibernates = errors.New("the session hibernates")

// giveUp records the session as hibernated, and then destroys its sandbox.
func (h *hibernation) giveUp(ctx context.Context, t *transition, b *box.Box, saved *store.Hibernation, how *belljar.Hibernation) error {
	x := h.of
	if err := h.record(ctx, t, b, saved, how); err != nil {
		return err
	}
	x.Contexts.Restore(saved.Contexts, x.all.now())
	x.leave(errHibernates)
	x.destroy(b)
	x.all.opts.Memory.Drop(x.id)
	return nil
}

// record records the session as hibernated.
func (h *hibernation) record(ctx context.Context, t *transition, b *box.Box, saved *store.Hibernation, how *belljar.Hibernation) error {
	x := h.of
	x.writing.Lock()
	defer x.writing.Unlock()
	x.mu.Lock()
	switch {
	case x.state.State.Ended():
		defer x.mu.Unlock()
		return Unusable(x.state)
	case ctx.Err() != nil:
		defer x.mu.Unlock()
		return context.Cause(ctx)
	}
	t.final = true
	h.hold(saved, x.place.Image)
	before := x.state.Hibernated
	x.box, x.state.State, x.state.Hibernated = nil, belljar.SessionHibernated, how
	x.mu.Unlock()
	if err := x.update(); err != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.box, x.state.Hibernated = b, before
		h.over()
		if !x.state.State.Ended() {
			x.state.State = belljar.SessionActive
		}
		return fault.Record("put the session on record", err)
	}
	return nil
}

// hold stores how the session is saved, and keeps its image and packages. The caller holds the lock.
func (h *hibernation) hold(saved *store.Hibernation, image runtime.Root) {
	packages, unused := h.of.all.opts.Packages.Hold(image.Layers), h.of.all.opts.Rules.Images.Use(image.Digest)
	h.saved, h.release = saved, func() { packages.Release(); unused() }
}

// over clears how the session was saved. The caller holds the lock.
func (h *hibernation) over() {
	if h.saved != nil {
		h.release()
	}
	h.saved, h.release = nil, nil
}

// failed returns the error of a transition after which the session has its sandbox.
func (h *hibernation) failed(ctx context.Context, u Use, err error) error {
	x := h.of
	x.mu.Lock()
	if x.inside == u.inside && x.inside.Err() != nil && x.ctx.Err() == nil {
		h.enterBox()
	}
	ended := x.state.State.Ended()
	x.mu.Unlock()
	var own *belljar.Error
	switch {
	case ended:
		return Unusable(x.Snapshot())
	case errors.Is(context.Cause(ctx), errUsed):
		return refusal(x, "in_use", errUsed.Error(), "try again, or force it")
	case errors.Is(context.Cause(ctx), fault.ErrDetached):
		return fault.ShuttingDown()
	case ctx.Err() != nil:
		return &belljar.Error{Code: belljar.CodeCanceled, Message: "the hibernation was cancelled", Details: map[string]any{"session_id": x.id}}
	case errors.As(err, &own):
		return own
	}
	return &belljar.Error{Code: belljar.CodeInternal, Message: "the session could not hibernate", Err: err, Details: map[string]any{"session_id": x.id}}
}

// How many idle sessions hibernate at the same time, and how many of one user: their content determines the duration.
const (
	restsAtOnce = 3
	restsOfOne  = 2
)

// rest makes the session hibernate because it has been idle since a time.
func (h *hibernation) rest(since time.Time) {
	x := h.of
	defer func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if h.resting = false; !x.state.State.Ended() {
			x.setTimer(x.all.now())
		}
	}()
	closing := x.all.opts.Work.Closing()
	turn := x.all.resting.Park() // at most one for each session waits
	defer turn.Leave()
	turn.Join(x.caller.ID, restsOfOne)
	select {
	case <-turn.Ready():
	case <-closing.Done():
		return
	case <-x.ctx.Done():
		return
	}
	x.mu.Lock()
	used := !x.life.alive.Equal(since)
	x.life.tried = x.all.now()
	x.mu.Unlock()
	if used || x.ctx.Err() != nil { // its turn and its end may come together
		return
	}
	ctx, cancel := context.WithTimeout(closing, hibernateTime)
	defer cancel()
	_, err := Hibernate(ctx, x, x.caller, belljar.HibernateSpec{})
	if err != nil && belljar.CodeOf(err) != belljar.CodeConflict && ctx.Err() == nil {
		x.all.opts.Log.Warn("session cannot hibernate", "session_id", x.id, "err", err)
	}
}
