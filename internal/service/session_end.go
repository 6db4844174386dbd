package service

import (
	"context"
	"errors"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/store"
)

// errSandboxLost says that a session ends because its sandbox did.
var errSandboxLost = errors.New("the session's sandbox is gone")

// errSandboxMute says that a session ends because its sandbox's agent does not answer any more.
var errSandboxMute = errors.New("the session's sandbox does not answer")

// end ends a session: nobody can use it from now on, its runs are stopped, and its sandbox goes when the last of them is
// over, which closes x.over. The first reason stays; end reports whether this is it.
func (x *session) end(state belljar.SessionState, message string, why error) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.endLocked(state, message, why)
}

// endLocked is end for who holds the lock.
func (x *session) endLocked(state belljar.SessionState, message string, why error) bool {
	if x.state.State.Ended() {
		return false
	}
	x.state.ExpiresAt = x.expiry(x.service.now())
	x.state.State, x.state.Message = state, message
	x.unwind()
	x.stop(why)
	if x.jar != nil { // otherwise who makes it finds out
		go x.finish(why)
	}
	return true
}

// finish takes away what a session has.
func (x *session) finish(why error) {
	x.service.stopRuns(x, why)
	x.mu.Lock()
	quiet := x.whenQuiet()
	x.mu.Unlock()
	<-quiet
	x.service.boxes.Destroy(x.id, x.jar)
	x.bury()
}

// whenQuiet is closed when nobody uses the session any more; many may wait for that. The caller holds the lock.
func (x *session) whenQuiet() <-chan struct{} {
	if x.quiet == nil {
		x.quiet = make(chan struct{})
	}
	quiet := x.quiet
	if x.uses == 0 {
		close(quiet)
		x.quiet = nil
	}
	return quiet
}

// bury puts the end of a session on record. Nothing else is left of it; it stays at hand until that is done.
func (x *session) bury() {
	s := x.service
	x.stop(nil)
	x.writing.Lock()
	defer x.writing.Unlock()
	row := x.row()
	now := s.now()
	row.EndedAt = &now
	end := func() error { return s.opts.Store.Sessions().Update(context.Background(), row) }
	if x.draft { // it could not be put on record, nor was anybody told of it
		s.sessions.leave(x)
	} else if err := end(); err != nil {
		s.log.Error("end of a session could not be put on record, trying on", "session_id", x.id, "err", err)
		s.work.Go(func() {
			s.carrier.tryOn(end, "session_id", x.id)
			s.sessions.leave(x)
		})
	} else {
		s.sessions.leave(x)
	}
	s.recordSession(event.SessionEnded, x.caller, row.Session, now.Sub(row.CreatedAt))
	close(x.over)
}

// gone reports whether nothing is left of a session, but perhaps of its end to be put on record.
func (x *session) gone() bool {
	select {
	case <-x.over:
		return true
	default:
		return false
	}
}

// watch waits for the death of the session's sandbox.
func (x *session) watch(j *box.Box) {
	exit, err := j.Wait(x.ctx)
	if x.ctx.Err() != nil {
		return // it was ended, and its sandbox is taken away
	}
	if err != nil {
		x.service.log.Error("sandbox of a session cannot be watched", "session_id", x.id, "err", err)
		return
	}
	message := "its sandbox died: " + exit.String()
	if exit.Reason == runtime.ExitOOM {
		message = "its sandbox ran out of memory"
		if usage, err := j.Usage(context.Background()); err == nil && (ending{usage: usage}).byNode() {
			message = "its sandbox was killed because the node had no memory left"
		}
	}
	x.end(belljar.SessionCrashed, message, errSandboxLost)
}

// row is the session as it goes on record.
func (x *session) row() store.Session {
	row := store.Session{Session: x.snapshot(), Spec: x.spec, NodeID: x.service.opts.Node.ID}
	row.Key, row.Image = row.ScopeKey, placement.NoteImage(x.image())
	return row
}

// awaited reports whether runs are under way that use a session, or will.
func (s *Service) awaited(x *session) bool { return len(s.runsIn(x)) > 0 }

// stopRuns stops the runs of a session. Those whose sandbox has died end by themselves, each for its own reason.
func (s *Service) stopRuns(x *session, why error) {
	if why == errSandboxLost || why == errSandboxMute {
		return
	}
	for _, r := range s.runsIn(x) {
		r.stop(why)
	}
}

// stopRun stops a run that came too late, if that is what the session's end did to the others.
func (x *session) stopRun(r *run) {
	var expired *expiredError
	why := context.Cause(x.ctx)
	if errors.Is(why, fault.ErrCanceled) || errors.Is(why, fault.ErrShutdown) || errors.As(why, &expired) {
		r.stop(why)
	}
}

// runsIn returns the runs under way in a session, also those that wait for their turn.
func (s *Service) runsIn(x *session) []*run {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*run
	for _, r := range s.runs {
		if r.in(x) {
			list = append(list, r)
		}
	}
	return list
}

// in reports whether a run belongs to a session.
func (r *run) in(x *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plan != nil && r.plan.session == x
}

// closeSessions ends all sessions and waits until nothing is left of them; or leaves those that can be used to the next
// process.
func (s *Service) closeSessions() {
	all := s.sessions.shut()
	for _, x := range all {
		if !s.stays() || !x.leave() {
			x.end(belljar.SessionLost, fault.ErrShutdown.Error(), fault.ErrShutdown)
		}
	}
	for _, x := range all {
		select {
		case <-x.over:
		case <-x.left:
		}
	}
}

// recordSession records an event of a session.
func (s *Service) recordSession(name string, caller belljar.Caller, state belljar.Session, took time.Duration) {
	e := event.Event{
		Name: name, Time: s.clock.Now(), Caller: caller, Session: &state, Runtime: state.Runtime, Component: component, Took: took,
	}
	if name == event.SessionEnded {
		e.Reason = string(state.State)
	}
	s.opts.Events.Record(e)
}
