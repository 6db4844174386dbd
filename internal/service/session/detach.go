package session

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// Refuse prevents new sessions.
func (s *Sessions) Refuse() { s.table.close() }

// Close prevents new sessions and ends all sessions, or detaches those that can outlive the process. It waits until that is
// done.
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

// detach leaves a session unchanged to the next process, and stops or detaches its uses. Its record is up to date when
// x.detached is closed. detach returns false for a session without a sandbox.
func (x *Session) detach() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.Approval.pending() && x.Approval.entry != nil {
		x.stop(fault.ErrDetached) // it continues to wait in the next process
		return true
	}
	if x.box == nil && x.asleep.saved == nil || x.state.State.Ended() {
		return false
	}
	select {
	case <-x.ctx.Done():
		return true // called a second time
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
