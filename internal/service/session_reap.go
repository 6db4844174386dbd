package service

import (
	"context"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/box"
)

// How the reaper asks agents whether they are there.
const (
	reapAtOnce = 8
	pingTime   = 10 * time.Second
	maxMute    = 3 // passes without an answer; the machine may be busy
)

// reapLater makes passes from now on.
func (s *Service) reapLater() {
	s.reaps.next(s.clock, s.opts.ReapEvery, func() {
		if !s.reaps.begin(&s.work) {
			return
		}
		defer s.work.Done()
		s.Reap(s.work.Closing())
		s.reapLater()
	})
}

// Reap makes one pass over the living sessions: it ends those whose time is over, should their own clocks have missed it,
// asks the agents of the others, which renews their leases and finds those that do not answer any more, and brings the
// record up to date. A daemon that was told to [Service.Recover] does so by itself every [Options.ReapEvery].
func (s *Service) Reap(ctx context.Context) {
	var wait sync.WaitGroup
	free := make(chan struct{}, reapAtOnce)
	for _, x := range s.sessions.all() {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			wait.Wait()
			return
		}
		wait.Go(func() {
			defer func() { <-free }()
			x.reap(ctx)
		})
	}
	wait.Wait()
	s.removeSuspected(ctx)
}

// reap is one session's part of a pass.
func (x *session) reap(ctx context.Context) {
	x.wake()
	x.mu.Lock()
	j, ended := x.jar, x.state.State.Ended()
	x.mu.Unlock()
	if j == nil || ended {
		return
	}
	x.ask(ctx, j)
	x.writing.Lock()
	defer x.writing.Unlock()
	x.mu.Lock()
	behind := x.expiry(x.service.now()).Sub(x.life.recorded) >= x.terms.ttl/10
	x.mu.Unlock()
	if behind && x.ctx.Err() == nil {
		if err := x.record(); err != nil {
			x.service.log.Warn("activity of a session could not be put on record", "session_id", x.id, "err", err)
		}
	}
}

// ask asks a session's agent whether it is there. One that has not answered for several passes is given up.
func (x *session) ask(ctx context.Context, j *box.Box) {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	defer context.AfterFunc(x.ctx, cancel)()
	_, err := j.Agent.Ping(ctx)
	if x.ctx.Err() != nil || x.service.work.Closing().Err() != nil {
		return
	}
	x.mu.Lock()
	if err == nil {
		x.mute = 0
	} else {
		x.mute++
	}
	lost := x.mute >= maxMute
	x.mu.Unlock()
	if err != nil {
		x.service.log.Warn("agent of a session does not answer", "session_id", x.id, "err", err)
	}
	if lost {
		x.end(belljar.SessionCrashed, "its agent does not answer any more", errSandboxMute)
	}
}

// lag is by how much the record of a session's expiry may be behind: it is brought up to date by the reaper, when that is
// worth a tenth of its TTL.
func (s *Service) lag(ttl time.Duration) time.Duration { return ttl/10 + 2*s.opts.ReapEvery }
