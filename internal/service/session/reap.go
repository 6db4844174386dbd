package session

import (
	"context"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/recovery"
)

// The reaper's pings of agents.
const (
	pingTime  = 10 * time.Second
	maxMissed = 3 // unanswered pings; the machine may be busy
)

// Reap makes one pass over the live sessions. It ends expired ones whose timers were missed. It pings the agents of the others,
// which renews their leases and detects those that no longer respond. It also updates records.
func (s *Sessions) Reap(ctx context.Context) {
	recovery.ForEachAgent(s.table.all(), func(x *Session) {
		if ctx.Err() == nil {
			x.reap(ctx)
		}
	})
}

// reap is the part of a pass for one session.
func (x *Session) reap(ctx context.Context) {
	x.checkExpiry()
	x.mu.Lock()
	b, hibernates, ended := x.box, x.asleep.saved != nil, x.state.State.Ended()
	x.mu.Unlock()
	switch {
	case ended || b == nil && !hibernates:
		return
	case b != nil:
		x.ping(ctx, b)
		bill(ctx, x, b)
	}
	x.writing.Lock()
	defer x.writing.Unlock()
	x.mu.Lock()
	behind := x.life.expiry(x.all.now(), x.asleep.inUse()).Sub(x.life.recorded) >= x.life.ttl/10
	x.mu.Unlock()
	if behind && x.ctx.Err() == nil {
		if err := x.update(); err != nil {
			x.all.opts.Log.Warn("activity of a session cannot be recorded", "session_id", x.id, "err", err)
		}
	}
}

// ping pings a session's agent. A session whose agent has not responded for several passes is lost.
func (x *Session) ping(ctx context.Context, b *box.Box) {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	defer context.AfterFunc(x.ctx, cancel)()
	_, err := b.Agent.Ping(ctx)
	if x.ctx.Err() != nil || x.all.opts.Work.Closing().Err() != nil {
		return
	}
	x.mu.Lock()
	if err == nil {
		x.missed = 0
	} else {
		x.missed++
	}
	lost := x.missed >= maxMissed
	x.mu.Unlock()
	if err != nil {
		x.all.opts.Log.Warn("agent of a session does not answer", "session_id", x.id, "err", err)
	}
	if lost {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.box == b { // otherwise it was released
			x.endLocked(belljar.SessionCrashed, "its agent no longer answers", errNoAnswer)
		}
	}
}

// lag is by how much the record of a session's expiry may lag: the reaper updates it when it lags by a tenth of the TTL.
func (s *Sessions) lag(ttl time.Duration) time.Duration { return ttl/10 + 2*s.opts.ReapEvery }
