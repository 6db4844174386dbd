package session

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// Refuse makes no more sessions.
func (s *Sessions) Refuse() { s.table.close() }

// Close makes no more sessions and ends all that there are, or detaches those that can outlive the process. It waits until that
// is done.
func (s *Sessions) Close() {
	all := s.table.close()
	for _, x := range all {
		if !s.opts.Survive || !x.detach() {
			x.end(belljar.SessionLost, fault.ErrShutdown.Error(), fault.ErrShutdown)
		}
	}
	for _, x := range all {
		select {
		case <-x.over:
		case <-x.detached:
		}
	}
}

// detach leaves a session as it is to the next process, and stops or detaches what uses it. Its record is up to date when
// x.detached is closed. detach reports false for a session without a sandbox.
func (x *Session) detach() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.Approval.pending() && x.Approval.entry != nil {
		x.stop(fault.ErrDetached) // it waits on in the next process
		return true
	}
	if x.box == nil && x.asleep.saved == nil || x.state.State.Ended() {
		return false
	}
	select {
	case <-x.ctx.Done():
		return true // for the second time
	default:
	}
	x.life.clearTimer()
	x.stop(fault.ErrDetached)
	go func() {
		defer close(x.detached)
		x.asleep.settle()
		x.mu.Lock()
		b := x.box
		x.mu.Unlock()
		if b != nil {
			b.Network.Close()
			bill(context.Background(), x, b)
		}
		x.writing.Lock()
		defer x.writing.Unlock()
		if err := x.update(); err != nil {
			x.all.opts.Log.Warn("activity of a session cannot be recorded", "session_id", x.id, "err", err)
		}
	}()
	return true
}
