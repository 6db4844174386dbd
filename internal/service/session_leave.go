package service

import "github.com/belljar/belljar/internal/service/fault"

// leave leaves a session to the next process, as it is; false if there is nothing to leave. What uses it is given up, or
// left as well, and its record is up to date when x.left is closed.
func (x *session) leave() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.jar == nil || x.state.State.Ended() {
		return false
	}
	select {
	case <-x.ctx.Done():
		return true // for the second time
	default:
	}
	x.unwind()
	x.stop(fault.ErrDetached)
	quiet := x.whenQuiet()
	go func() {
		defer close(x.left)
		<-quiet
		x.writing.Lock()
		defer x.writing.Unlock()
		if err := x.record(); err != nil {
			x.service.log.Warn("activity of a session could not be put on record", "session_id", x.id, "err", err)
		}
	}()
	return true
}
