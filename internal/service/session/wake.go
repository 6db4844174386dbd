package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/store"
)

// enter counts a use of the session's sandbox, or returns the transition that must end first.
func (h *hibernation) enter() (*box.Box, *transition, error) {
	x := h.of
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.state.State.Ended() || x.box == nil && h.saved == nil:
		return nil, nil, Unusable(x.state)
	case h.transition == nil && x.box == nil && x.ctx.Err() != nil:
		return nil, nil, fault.ShuttingDown()
	case h.transition == nil && x.box == nil:
		h.beginWaking()
	case h.transition != nil && !h.transition.final:
		h.transition.stop(errUsed)
	}
	x.life.touch(x.all.now())
	if h.transition != nil && h.transition.final {
		h.transition.waiters++
		return nil, h.transition, nil
	}
	x.uses++
	return x.box, nil, nil
}

// await waits for the end of a transition. If the last waiter for a sandbox cancels, that stops its creation.
func (h *hibernation) await(ctx context.Context, t *transition) error {
	x := h.of
	select {
	case <-t.over:
		if errors.Is(t.err, errNoWaiters) {
			return nil // others cancelled it: the next transition is this caller's
		}
		return t.err
	case <-ctx.Done():
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if t.waiters--; t.waiters == 0 && x.box == nil {
		t.stop(errNoWaiters)
	}
	return context.Cause(ctx)
}

// beginWaking starts making a sandbox for a hibernated session. The caller holds the lock.
func (h *hibernation) beginWaking() {
	x := h.of
	ctx, stop := context.WithCancelCause(x.ctx)
	t := &transition{over: make(chan struct{}), stop: stop, final: true}
	h.transition = t
	go func() {
		defer stop(nil)
		begun := x.all.opts.Clock.Now()
		err := h.wake(ctx)
		if err != nil {
			if ctx.Err() == nil {
				x.all.opts.Log.Warn("session cannot be woken", "session_id", x.id, "err", err)
			}
			h.end(t, wakeError(ctx, x, err))
			return
		}
		h.tidy(t)
		x.all.record(event.SessionWoken, x.caller, x.Snapshot(), x.all.opts.Clock.Now().Sub(begun))
	}()
}

// wake makes a sandbox for a hibernated session, from its saved state.
func (h *hibernation) wake(ctx context.Context) error {
	x, s := h.of, h.of.all
	if err := h.placeAgain(ctx); err != nil {
		return err
	}
	if err := s.claimMemory(ctx, x); err != nil {
		s.opts.Memory.Drop(x.id)
		return err
	}
	x.mu.Lock()
	how, contexts := x.state.Hibernated, h.saved.Contexts
	x.mu.Unlock()
	live := how != nil && how.Live
	err := h.wakeWith(ctx, live)
	if live && unfit(err) && ctx.Err() == nil {
		s.opts.Log.Warn("processes of a hibernated session cannot be continued", "session_id", x.id, "err", err)
		h.note(&belljar.Hibernation{Reason: unlive(err)})
		if live, err = false, h.wakeWith(ctx, false); err != nil {
			h.note(how)
		}
	}
	switch {
	case err != nil:
		s.opts.Memory.Drop(x.id)
	case live:
		x.Contexts.Keep(contexts)
	}
	return err
}

// unfit reports whether an error means that saved processes can never continue: they are damaged or missing, or from other versions
// or another machine. After any other error a retry may succeed.
func unfit(err error) bool {
	code := belljar.CodeOf(err)
	return err != nil && (code == belljar.CodeConflict || code == belljar.CodeNotFound)
}

// note records what the session restores.
func (h *hibernation) note(how *belljar.Hibernation) {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	h.of.state.Hibernated = how
}

// wakeWith makes a sandbox for a hibernated session, with its processes if it is live, else with its files and shell.
func (h *hibernation) wakeWith(ctx context.Context, live bool) error {
	x, s := h.of, h.of.all
	x.mu.Lock()
	shell := h.saved.Shell
	x.mu.Unlock()
	from, err := s.opts.Snapshots.Hibernated(ctx, x.caller, x.id, shell, live)
	if err != nil {
		return err
	}
	return furnish(ctx, x, s.opts.Packages.Hold(x.Placement().Image.Layers), from, nil)
}

// tidy ends a transition, and removes the snapshot of the resumed session. Uses do not wait for that; a hibernation does.
func (h *hibernation) tidy(t *transition) {
	x := h.of
	next := &transition{over: make(chan struct{}), stop: func(error) {}}
	x.mu.Lock()
	h.transition = next
	x.mu.Unlock()
	close(t.over)
	if err := x.all.opts.Snapshots.Drop(context.Background(), x.id); err != nil {
		x.all.opts.Log.Warn("snapshot of a session that woke cannot be removed", "session_id", x.id, "err", err) // it is removed when it expires
	}
	h.end(next, nil)
}

// placeAgain chooses a host again under the current rules. The session's image, limits, packages and network stay.
func (h *hibernation) placeAgain(ctx context.Context) error {
	x := h.of
	x.mu.Lock()
	ask := admission.RequestOfSession(x.spec)
	ask.Runtime, ask.Digest = x.state.Runtime, x.state.ImageDigest
	caller := x.all.opts.Rules.Recovered(x.caller, ask, x.state.Isolation, x.state.PolicyHash == x.all.opts.PolicyHash)
	x.mu.Unlock()
	if err := x.all.opts.Rules.Enabled(); err != nil {
		return err
	}
	p, err := x.all.opts.Rules.Place(ctx, caller, ask)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	was := x.place
	p.Why, p.Limits, p.Egress, p.Env, p.Broker, p.Image.Layers = was.Why, was.Limits, was.Egress, was.Env, was.Broker, was.Image.Layers
	p.InstallMB = 0 // nothing is installed again
	x.place = &p
	x.state.RuntimeVersion, x.state.Isolation, x.state.LimitsEnforced = p.Caps.Version, string(p.Caps.Isolation), placement.Enforced(p.Caps)
	x.state.Limits = p.InForce()
	return nil
}

// wakeError returns the error for callers of a session that stays hibernated.
func wakeError(ctx context.Context, x *Session, err error) error {
	switch why := context.Cause(ctx); {
	case errors.Is(why, errNoWaiters):
		return errNoWaiters
	case errors.Is(why, fault.ErrDetached):
		return fault.ShuttingDown()
	case x.Snapshot().State.Ended():
		return Unusable(x.Snapshot())
	}
	var of *belljar.Error
	if err = makeError(x, err); !errors.As(err, &of) {
		return err
	}
	e := aboutSession(of, x.id)
	e.Message, e.Err = fmt.Sprintf("session %s cannot be woken, and stays hibernated: %s", x.id, of.Message), nil
	e.Details["state"] = string(belljar.SessionHibernated)
	return e
}

// reviveHibernated continues a session that a previous process left hibernated.
func (s *Recovery) reviveHibernated(ctx context.Context, row store.Session) (*Session, *ending) {
	if s.lapsed(row) {
		return nil, &ending{belljar.SessionExpired, "its time was over before belljar was started again"}
	}
	saved, err := s.sessions.opts.Snapshots.Find(ctx, belljar.Caller{ID: row.UserID}, row.ID)
	if belljar.CodeOf(err) == belljar.CodeNotFound {
		return nil, &ending{belljar.SessionLost, "it was hibernated, and its files are gone"}
	}
	p, err := s.recoveredPlacement(ctx, row)
	var x *Session
	if err == nil {
		x, err = s.revive(ctx, row, p)
	}
	if err != nil {
		s.sessions.opts.Log.Error("hibernated session of a former process cannot continue", "session_id", row.ID, "err", err)
		return nil, &ending{belljar.SessionLost, "it was hibernated, and belljar was restarted and could not continue it"}
	}
	s.sessions.opts.Boxes.Remove(ctx, row.Runtime, row.ID) // it may have been partly released, or partly remade
	x.mu.Lock()
	defer x.mu.Unlock()
	x.asleep.hold(cmp.Or(row.Hibernation, &store.Hibernation{}), p.Image)
	x.Contexts.Restore(x.asleep.saved.Contexts, s.sessions.now())
	if saved.ExpiresAt != nil {
		x.life.ends = earlier(x.life.ends, *saved.ExpiresAt) // its files are removed then, whatever the current default lifetime is
	}
	close(x.ready)
	x.setTimer(s.sessions.now())
	return x, nil
}

// CheckRuntime refuses the use of a hibernated session whose runtime the server no longer has.
func CheckRuntime(x *Session) error {
	if x.Placement().Host != nil {
		return nil
	}
	name := x.Snapshot().Runtime
	return &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: fmt.Sprintf("session %s stays hibernated: the server no longer has its runtime %s", x.id, name),
		Details: map[string]any{
			"session_id": x.id, "state": string(belljar.SessionHibernated), "runtime": name, "available": false, "suggested": []string{},
		},
		Hint: "the operator can add the runtime to SANDBOX_RUNTIMES and restart the server; or delete the session",
	}
}

// Hibernates reports whether a session is hibernated, and not being resumed.
func Hibernates(x *Session) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.asleep.saved != nil && x.asleep.transition == nil
}

// dropOrphans removes the snapshots that previous processes left of sessions that do not hibernate.
func (s *Recovery) dropOrphans(ctx context.Context) {
	err := s.sessions.opts.Snapshots.DropOrphans(ctx, func(id string) bool {
		x := s.sessions.table.get(id)
		if x == nil {
			row, err := s.sessions.opts.Store.Get(ctx, id)
			if err != nil { // an unreadable record may be restored from a backup, and then needs its files
				return !errors.Is(err, store.ErrNotFound)
			}
			return row.NodeID != s.sessions.opts.NodeID && !row.State.Ended() // another server's on the same store
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.asleep.saved != nil || x.asleep.transition != nil
	})
	if err != nil {
		s.sessions.opts.Log.Error("snapshots of former sessions cannot be removed", "err", err)
	}
}
