package session

import (
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// lifespan is when a session was used, and when it has to end. The session's lock guards it.
type lifespan struct {
	terms
	used     time.Time // last: a run, a file, something typed
	alive    time.Time // last sign of life: that, or output
	ends     time.Time // used or not
	tried    time.Time // to hibernate, last
	retained bool      // only that counts: it was closed, and is kept to be looked at
	recorded time.Time // what is on record as its ExpiresAt

	stopTimer func() bool // nil while no timer runs
	due       time.Time   // of the timer
}

// touch notes a use, with which the session's TTL begins again.
func (l *lifespan) touch(now time.Time) { l.used, l.alive = now, now }

// Touch notes a use that is over at once, as something typed at a terminal.
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

// expiry is when the session will end if nothing happens from now on. inUse says that it is in use now.
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

// check is when the session's expiry has to be checked: its TTL begins with the end of the last use.
func (l *lifespan) check(now time.Time, inUse bool) time.Time {
	if !inUse || l.retained {
		return l.expiry(now, inUse)
	}
	if l.idle > 0 {
		return earlier(l.ends, l.alive.Add(l.idle))
	}
	return l.ends
}

// expired returns why the session has to end now, or "". unused reports that only its TTL is over.
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

// hibernateAt is when the session may hibernate if nothing happens from now on; zero for never.
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

// setTimer has the session's expiry checked in time. A timer that fires earlier stays: a use costs no new timer. The caller holds
// the lock.
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

// checkExpiry ends the session if its time is over, and else sets the timer again. The timer calls it, and the reaper. A run in
// the queue will use the session, and keeps it.
func (x *Session) checkExpiry() {
	x.mu.Lock()
	_, unused := x.life.expired(x.all.now(), x.asleep.inUse())
	x.mu.Unlock()
	awaited := unused && x.all.opts.Runs.ActiveIn(x.id)

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
		x.life.stopTimer = nil // the timer called
	}
	if rest := x.life.hibernateAt(); !rest.IsZero() && !rest.After(now) && x.asleep.idle() {
		x.life.tried, x.asleep.resting = now, true
		go x.asleep.rest(x.life.alive)
	}
	if made {
		x.setTimer(now)
	}
}

// inUse reports whether something uses the session, or waits for it to be woken. The caller holds the lock.
func (h *hibernation) inUse() bool {
	return h.of.uses > 0 || h.transition != nil && h.transition.waiters > 0
}

// idle reports whether the session has a sandbox that is not in use, nor given up, and does not wait for that. The caller holds the lock.
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
