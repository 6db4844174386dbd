package run

import (
	"context"
	"errors"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// Cancel stops a run in the name of a caller. It returns once the run is sure to end, even if this process dies: its agent has the order to end the
// command, the command has ended and its artifacts are copied, or its end is on record.
func (r *Run) Cancel(ctx context.Context, caller belljar.Caller) error {
	r.stop(fault.Canceled(caller))
	if errors.Is(context.Cause(r.ctx), fault.ErrShutdown) && r.waiting() {
		return fault.ShuttingDown() // it stays queued, for the next process
	}
	select {
	case <-r.endSent:
	case <-r.done:
	case <-r.stuck:
	case <-r.detached:
		return fault.ShuttingDown()
	case <-ctx.Done():
		return &belljar.Error{
			Code: belljar.CodeCanceled, Message: "the run was cancelled, but its end is not recorded yet", Err: context.Cause(ctx),
			Details: map[string]any{"run_id": r.id},
		}
	}
	return nil
}
