package service

import (
	"time"

	"github.com/belljar/belljar"
)

// terms are for how long a session may live, and how much may go on in it.
type terms struct {
	ttl        time.Duration // after its last use
	idle       time.Duration // without any sign of life; 0 is for ever
	lifetime   time.Duration // in all
	runs       int           // in all; 0 is no limit
	concurrent int           // at once
}

// lifespan is when a session was used, and when it has to end. The session's lock guards it.
type lifespan struct {
	used     time.Time // last: a run, a file, something typed
	stirred  time.Time // last sign of life: that, or output
	ends     time.Time // used or not
	retained bool      // only that counts: it was closed, and is kept to be looked at
	recorded time.Time // what is on record as its ExpiresAt

	calm func() bool // stops the clock; nil while none runs
	due  time.Time   // of the clock
}

// touch notes a use, which lets the session's time begin anew. The caller holds the lock, as of everything here that does
// not say otherwise.
func (x *session) touch() {
	x.life.used = x.service.now()
	x.life.stirred = x.life.used
}

// typed notes a use that is over at once, as something typed at a terminal. The caller does not hold the lock.
func (x *session) typed() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.touch()
}

// stir notes a sign of life that is no use, as output: it counts for the idle timeout only. The caller does not hold the
// lock.
func (x *session) stir() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.life.stirred = x.service.now()
}

// expiry is when the session will end if nothing happens from now on.
func (x *session) expiry(now time.Time) time.Time {
	at := x.life.ends
	if x.life.retained {
		return at
	}
	if x.terms.idle > 0 {
		at = earlier(at, x.life.stirred.Add(x.terms.idle))
	}
	if x.uses > 0 {
		return earlier(at, now.Add(x.terms.ttl))
	}
	return earlier(at, x.life.used.Add(x.terms.ttl))
}

// expired says why the session has to end now; "" if it has not to. It is unused if only its TTL is over.
func (x *session) expired(now time.Time) (why string, unused bool) {
	switch l := x.life; {
	case x.state.State.Ended():
		return "", false
	case !now.Before(l.ends) && l.retained:
		return "it was closed, and kept for its time", false
	case !now.Before(l.ends):
		return "its lifetime of " + x.terms.lifetime.String() + " is over", false
	case l.retained:
		return "", false
	case x.terms.idle > 0 && !now.Before(l.stirred.Add(x.terms.idle)):
		return "idle: nothing happened in it for " + x.terms.idle.String(), false
	case x.uses == 0 && !now.Before(l.used.Add(x.terms.ttl)):
		return "nobody used it for " + x.terms.ttl.String(), true
	}
	return "", false
}

// wind sees to it that the clock wakes the session in time. One that wakes it earlier stays: a use costs no new clock.
func (x *session) wind(now time.Time) {
	if x.ctx.Err() != nil {
		return // it is over, or left to the next process
	}
	at := x.expiry(now)
	if x.uses > 0 && !x.life.retained { // its TTL waits for release
		at = x.life.ends
		if x.terms.idle > 0 {
			at = earlier(at, x.life.stirred.Add(x.terms.idle))
		}
	}
	if x.life.calm != nil {
		if !x.life.due.After(at) {
			return
		}
		x.life.calm()
	}
	x.life.due = at
	x.life.calm = x.service.clock.AfterFunc(max(at.Sub(now), 0), x.wake)
}

// unwind stops the clock.
func (x *session) unwind() {
	if x.life.calm != nil {
		x.life.calm()
		x.life.calm = nil
	}
}

// wake ends the session if its time is over, and else winds the clock again. The clock calls it, and the reaper. A run that
// waits in the queue will use the session, and keeps it.
func (x *session) wake() {
	x.mu.Lock()
	_, unused := x.expired(x.service.now())
	x.mu.Unlock()
	awaited := unused && x.service.awaited(x)

	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state.State.Ended() || x.ctx.Err() != nil {
		return
	}
	if awaited {
		x.touch()
	}
	now := x.service.now()
	if why, _ := x.expired(now); why != "" {
		x.endLocked(belljar.SessionExpired, why, &expiredError{why})
		return
	}
	if !x.life.due.After(now) {
		x.life.calm = nil // it is the clock that calls
	}
	if x.jar != nil {
		x.wind(now)
	}
}

// expiredError is why a run ends whose session expires.
type expiredError struct{ why string }

func (e *expiredError) Error() string { return "its session has expired: " + e.why }

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
