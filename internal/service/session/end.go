package session

import (
	"cmp"
	"context"
	"errors"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/store"
)

// errSandboxLost is the cause of a session's end if its sandbox ended.
var errSandboxLost = errors.New("the session's sandbox is gone")

// errNoAnswer is the cause of a session's end if its sandbox's agent no longer responds.
var errNoAnswer = errors.New("the session's sandbox does not answer")

// end ends a session: it is no longer usable, its runs are stopped, and its sandbox is removed after the last use, which closes
// x.over. The first reason wins; end reports whether this is it.
func (x *Session) end(state belljar.SessionState, message string, why error) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.endLocked(state, message, why)
}

// endLocked is end for a caller that holds the lock.
func (x *Session) endLocked(state belljar.SessionState, message string, why error) bool {
	if x.state.State.Ended() {
		return false
	}
	x.state.ExpiresAt = x.life.expiry(x.all.now(), x.uses > 0)
	x.state.State, x.state.Message, x.state.Hibernated = state, message, nil
	x.life.clearTimer()
	x.stop(why)
	if x.box != nil || x.asleep.saved != nil { // otherwise x.begin fails
		go x.finish(why)
	}
	return true
}

// Delete ends a session at a caller's request, and waits until its sandbox is removed.
func (x *Session) Delete(ctx context.Context, caller belljar.Caller) error {
	x.end(belljar.SessionClosed, "deleted by its caller", fault.Canceled(caller))
	return x.wait(ctx)
}

// endForMemory ends a session whose sandbox is destroyed because the node's memory is exhausted.
func (x *Session) endForMemory(why error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.asleep.saved == nil { // otherwise it stays hibernated
		x.endLocked(belljar.SessionCrashed, why.Error(), why)
	}
}

// wait waits until an ending session has ended.
func (x *Session) wait(ctx context.Context) error {
	select {
	case <-x.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// finish removes the resources of a session.
func (x *Session) finish(why error) {
	x.stopRuns(why)
	x.asleep.settle()
	x.mu.Lock()
	b, asleep := x.box, x.asleep.saved != nil
	x.asleep.over()
	x.mu.Unlock()
	if b != nil {
		x.destroy(b)
	}
	if asleep {
		if err := x.all.opts.Snapshots.Drop(context.Background(), x.id); err != nil {
			x.all.opts.Log.Warn("files of a hibernated session cannot be removed", "session_id", x.id, "err", err) // removed at their expiry
		}
	}
	x.recordEnd()
}

// settle waits until the session is not in use, and not in a transition into or out of hibernation.
func (h *hibernation) settle() {
	x := h.of
	x.mu.Lock()
	t, unused := h.transition, x.whenUnused()
	x.mu.Unlock()
	if t != nil {
		<-t.over
	}
	<-unused
}

// stopRuns stops the session's runs. If the sandbox has died, its runs end on their own, each with its own reason.
func (x *Session) stopRuns(why error) {
	if why == errSandboxLost || why == errNoAnswer {
		return
	}
	x.all.opts.Runs.StopIn(x.id, why)
}

// StopCause returns the cause for stopping a run that arrives after the session's end, if the end stopped its other runs; else nil.
func (x *Session) StopCause() error {
	var expired *fault.ExpiredError
	why := context.Cause(x.ctx)
	if errors.Is(why, fault.ErrCanceled) || errors.Is(why, fault.ErrShutdown) || errors.As(why, &expired) {
		return why
	}
	return nil
}

// recordEnd records the end of a session whose sandbox is removed. The session stays in the table until that succeeds.
func (x *Session) recordEnd() {
	s := x.all
	x.stop(nil)
	x.writing.Lock()
	defer x.writing.Unlock()
	row := x.row()
	now := s.now()
	row.EndedAt = &now
	write := func() error { return s.opts.Store.Update(context.Background(), row) }
	if x.draft { // it could not be recorded, and no caller knows of it
		x.draft = false // an insert that waits for x.writing would leave a session that starts for ever
		s.remove(x)
	} else if err := write(); err != nil {
		s.opts.Log.Error("end of a session cannot be recorded; retrying", "session_id", x.id, "err", err)
		s.opts.Work.Go(func() {
			s.opts.Retry.Do(write, "session_id", x.id)
			s.remove(x)
		})
	} else {
		s.remove(x)
	}
	x.mu.Lock()
	made := x.made || x.fault == nil
	x.mu.Unlock()
	if made { // otherwise there is no event of its creation
		s.record(event.SessionEnded, fault.Actor(context.Cause(x.ctx), x.caller), row.Session, now.Sub(row.CreatedAt))
	}
	close(x.over)
}

// remove removes a session from the table, and releases its memory.
func (s *Sessions) remove(x *Session) {
	s.opts.Memory.Drop(x.id)
	s.table.remove(x)
}

// gone reports whether a session has ended, even if its end is not on record yet.
func (x *Session) gone() bool {
	select {
	case <-x.over:
		return true
	default:
		return false
	}
}

// watch waits for the death of the session's sandbox.
func (x *Session) watch(b *box.Box) {
	exit, err := b.Wait(x.ctx)
	if x.ctx.Err() != nil {
		return // the session has ended, and removes its sandbox
	}
	if err != nil {
		x.all.opts.Log.Error("sandbox of a session cannot be watched", "session_id", x.id, "err", err)
		return
	}
	message := "its sandbox died: " + exit.String()
	if exit.Reason == runtime.ExitOOM {
		message = "its sandbox ran out of memory"
		if usage, err := b.Usage(context.Background()); err == nil && box.KilledByNode(usage) {
			message = "its sandbox was killed because the node had no memory left"
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.box == b { // otherwise it was released
		x.endLocked(belljar.SessionCrashed, message, errSandboxLost)
	}
}

// row returns the session's record.
func (x *Session) row() store.Session {
	row := store.Session{Session: x.Snapshot(), NodeID: x.all.opts.NodeID}
	x.mu.Lock()
	row.Spec, row.Hibernation, row.Below = x.spec, x.asleep.saved, x.below
	x.mu.Unlock()
	if row.Spec.Secrets = nil; row.State.Ended() {
		row.Hibernation, row.Spec = nil, belljar.SessionSpec{} // up to megabytes that nothing reads again
	} else {
		row.Secrets, row.Hibernation = x.sealed, cmp.Or(row.Hibernation, awake(x))
	}
	row.Operator = x.caller.Admin()
	row.Key, row.Image = row.ScopeKey, placement.NoteImage(x.Placement().Image)
	return row
}

// awake returns the recorded contexts of a session that has its sandbox; nil without any.
func awake(x *Session) *store.Hibernation {
	if list := x.Contexts.Save(); len(list) > 0 {
		return &store.Hibernation{Contexts: list}
	}
	return nil
}

// note records the current state of a session.
func note(x *Session) error {
	x.writing.Lock()
	defer x.writing.Unlock()
	return x.update()
}

// update is note for a caller that holds x.writing, so that an older state never replaces a newer one.
func (x *Session) update() error {
	row := x.row()
	if row.State.Ended() {
		return nil // recordEnd writes, or has written, the final state
	}
	err := x.all.opts.Store.Update(context.Background(), row)
	if err == nil {
		x.mu.Lock()
		x.life.recorded = row.ExpiresAt
		x.mu.Unlock()
	}
	return err
}
