package service

import (
	"context"
	"errors"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// runs is the runs of the service as one caller sees them.
type runs struct{ view }

var _ belljar.Runs = runs{}

// Start admits a run and sets it going, or puts it into the queue.
func (v runs) Start(ctx context.Context, req belljar.RunRequest) (belljar.Run, error) {
	run, err := v.service.start(ctx, v.caller, req)
	if err != nil {
		v.service.denied(v.caller, err)
		return belljar.Run{}, fault.As("start run", err)
	}
	return run, nil
}

// Get returns a run as it stands.
func (v runs) Get(ctx context.Context, id string) (belljar.Run, error) {
	r, row, err := v.service.find(ctx, v.caller, id)
	switch {
	case err != nil:
		return belljar.Run{}, err
	case r != nil:
		run := r.snapshot()
		run.LastSeq = r.said()
		return run, nil
	}
	row.Run.LastSeq = row.LastSeq
	return row.Run, nil
}

// said is the seq of the last frame that readers of the run's log can have seen: the end event is held back.
func (r *run) said() uint64 {
	last := r.log.Last()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lastSeq > 0 && !r.state.Phase.Terminal() {
		last = min(last, r.lastSeq-1)
	}
	return last
}

// List returns the caller's runs. An operator can ask for another's.
func (v runs) List(ctx context.Context, q belljar.RunQuery) (belljar.RunPage, error) {
	if q.UserID == "" {
		q.UserID = v.caller.ID
	}
	if !v.caller.Sees(q.UserID) {
		return belljar.RunPage{}, fault.Forbidden("see the runs of others")
	}
	return v.service.list(ctx, q)
}

// Stdin opens the standard input of an interactive run.
func (v runs) Stdin(_ context.Context, id string) (belljar.Stdin, error) {
	return v.service.openStdin(v.caller, id)
}

// Cancel asks a run to end. It is answered when the death of this process could not let the run go on any more: its agent
// has been told to end the command, or its end is on record.
func (v runs) Cancel(ctx context.Context, id string) error {
	r, _, err := v.service.find(ctx, v.caller, id)
	if r == nil {
		return err
	}
	r.stop(fault.ErrCanceled)
	if errors.Is(context.Cause(r.ctx), fault.ErrShutdown) && r.waits() {
		return fault.ShuttingDown() // it waits on, for the next process
	}
	select {
	case <-r.told:
	case <-r.done:
	case <-r.stuck:
	case <-r.left:
		return fault.ShuttingDown()
	case <-ctx.Done():
		return &belljar.Error{
			Code: belljar.CodeCanceled, Message: "the cancellation may not be on record yet", Err: context.Cause(ctx),
			Details: map[string]any{"run_id": id},
		}
	}
	return nil
}

// waits reports whether the run has waited for its turn and has not begun.
func (r *run) waits() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ticket.Waited() && r.state.StartedAt == nil
}
