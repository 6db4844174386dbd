package session

import (
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// lifespan tracks when a session was used, and when it must end. The session's lock guards it.
type lifespan struct {
	terms
	used     time.Time // the last use: a run, a file, terminal input
	alive    time.Time // the last activity: a use, or output
	ends     time.Time // even if used
	tried    time.Time // last attempt to hibernate
	retained bool      // only ends counts: the session was closed, and is kept for inspection
	recorded time.Time // the recorded ExpiresAt

	stopTimer func() bool // nil while no timer runs
	due       time.Time   // of the timer
}

// touch records a use, which restarts the session's TTL.
func (l *lifespan) touch(now time.Time) { l.used, l.alive = now, now }

// Touch records an instantaneous use, such as terminal input.
func (x *Session) Touch() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.life.touch(x.all.now())
}

// KeepAlive records activity, such as output, that resets the idle timeout but not the TTL.
func (x *Session) KeepAlive() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.life.alive = x.all.now()
}

// expiry returns when the session will end without further activity. inUse means that it is in use now.
func (l *lifespan) expiry(now time.Time, inUse bool) time.Time {
	at := l.ends
	if l.retained {
		return at
	}
	if l.idle > 0 {
		at = earlier(at, l.alive.Add(l.idle))
	}
	if inUse {
		return earlier(at, now.Add(l.ttl))
	}
	return earlier(at, l.used.Add(l.ttl))
}

// check returns when to check the session's expiry: its TTL begins with the end of the last use.
func (l *lifespan) check(now time.Time, inUse bool) time.Time {
	if !inUse || l.retained {
		return l.expiry(now, inUse)
	}
	if l.idle > 0 {
		return earlier(l.ends, l.alive.Add(l.idle))
	}
	return l.ends
}

// expired returns why the session must end now, or "". unused reports that only its TTL has passed.
func (l *lifespan) expired(now time.Time, inUse bool) (why string, unused bool) {
	switch {
	case !now.Before(l.ends) && l.retained:
		return "it was closed, and the time to retain it is over", false
	case !now.Before(l.ends):
		return "its lifetime of " + l.lifetime.String() + " is over", false
	case l.retained:
		return "", false
	case l.idle > 0 && !now.Before(l.alive.Add(l.idle)):
		return "idle: nothing happened in it for " + l.idle.String(), false
	case !inUse && !now.Before(l.used.Add(l.ttl)):
		return "it was not used for " + l.ttl.String(), true
	}
	return "", false
}

// hibernateAt returns when the session may hibernate without further activity; zero for never.
func (l *lifespan) hibernateAt() (at time.Time) {
	if l.rest > 0 && !l.retained {
		at = later(l.alive, l.tried).Add(l.rest)
	}
	return at
}

// clearTimer stops the timer.
func (l *lifespan) clearTimer() {
	if l.stopTimer != nil {
		l.stopTimer()
		l.stopTimer = nil
	}
}

// setTimer schedules the check of the session's expiry. An earlier timer stays, so that a use needs no new timer. The caller holds the
// lock.
func (x *Session) setTimer(now time.Time) {
	if x.ctx.Err() != nil {
		return // it has ended, or is detached
	}
	at := x.life.check(now, x.asleep.inUse())
	if rest := x.life.hibernateAt(); !rest.IsZero() && x.asleep.idle() {
		at = earlier(at, rest)
	}
	if x.life.stopTimer != nil {
		if !x.life.due.After(at) {
			return
		}
		x.life.stopTimer()
	}
	x.life.due = at
	x.life.stopTimer = x.all.opts.Clock.AfterFunc(max(at.Sub(now), 0), x.checkExpiry)
}

// checkExpiry ends the session if it has expired, and else sets the timer again. The timer and the reaper call it. A queued run will use
// the session, and keeps it. A run that waits for an approval keeps it from its idle timeout, too: only an operator can end that wait. So does
// a run over its log's cap: the agent does not report further output.
func (x *Session) checkExpiry() {
	x.mu.Lock()
	why, unused := x.life.expired(x.all.now(), x.asleep.inUse())
	x.mu.Unlock()
	awaited := false
	if why != "" {
		active, quiet := x.all.opts.Runs.ActiveIn(x.id)
		awaited = unused && active || quiet
	}

	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state.State.Ended() || x.ctx.Err() != nil || x.Approval.pending() {
		return
	}
	if awaited {
		x.life.touch(x.all.now())
	}
	now, made := x.all.now(), x.box != nil || x.asleep.saved != nil // its time begins when it is made
	if why, _ := x.life.expired(now, x.asleep.inUse()); why != "" && made {
		x.endLocked(belljar.SessionExpired, why, &fault.ExpiredError{Why: why})
		return
	}
	if !x.life.due.After(now) {
		x.life.stopTimer = nil // this is the timer's call
	}
	if rest := x.life.hibernateAt(); !rest.IsZero() && !rest.After(now) && x.asleep.idle() {
		x.life.tried, x.asleep.resting = now, true
		go x.asleep.rest(x.life.alive)
	}
	if made {
		x.setTimer(now)
	}
}

// inUse reports whether the session is in use, or a use waits for it to resume. The caller holds the lock.
func (h *hibernation) inUse() bool {
	return h.of.uses > 0 || h.transition != nil && h.transition.waiters > 0
}

// idle reports whether the session has a sandbox that is neither in use nor being released. The caller holds the lock.
func (h *hibernation) idle() bool {
	return h.of.box != nil && h.of.uses == 0 && h.transition == nil && !h.resting
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
