package service

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// runs is the runs of the service, as one caller sees them.
type runs struct{ view }

var (
	_ belljar.Runs = runs{}
)

// Start admits a run and starts or queues it.
func (v runs) Start(ctx context.Context, req belljar.RunRequest) (belljar.Run, error) {
	run, err := v.service.runs.Start(ctx, v.caller, req)
	return orRefused(v.view, "start run", run, err)
}

// Finish starts a run and waits for its end: see [belljar.Finish].
func (v runs) Finish(ctx context.Context, req belljar.RunRequest, wait time.Duration) (belljar.Run, *belljar.Output, error) {
	run, out, started, err := v.service.runs.Finish(ctx, v.caller, req, wait)
	switch {
	case err != nil && !started:
		return belljar.Run{}, nil, v.service.refused(v.caller, "start run", err)
	case err == nil && !started: // the request was repeated
		return v.await(ctx, run, req.Reread, wait)
	}
	return run, out, err
}

// await waits for the end of a run that an earlier request started, as [belljar.Finish] does.
func (v runs) await(ctx context.Context, first belljar.Run, allow func(belljar.Run) error, wait time.Duration) (run belljar.Run, out *belljar.Output, err error) {
	waiting, stop := context.WithTimeout(ctx, wait)
	defer stop()
	var all belljar.Output
	for _, err = range v.Frames(waiting, first.ID, belljar.Tail) {
		if err != nil {
			break
		}
	}
	if err == nil {
		run, err = v.Get(ctx, first.ID)
	}
	if err == nil && allow != nil {
		if err = allow(run); err != nil {
			return first, nil, err
		}
	}
	if err == nil {
		all, err = belljar.Printed(v.Frames(ctx, first.ID, 1))
	}
	switch {
	case err == nil:
		out = &all
	case ctx.Err() == nil && errors.Is(waiting.Err(), context.DeadlineExceeded):
		run, err = v.Get(ctx, first.ID)
	case v.service.gone.Err() != nil: // as for the first request
		run, err = first, fault.Outlived(first.ID)
	}
	run.Details = first.Details
	return run, out, err
}

// Get returns a run in its current state.
func (v runs) Get(ctx context.Context, id string) (belljar.Run, error) {
	r, row, err := v.service.findRun(ctx, v.caller, id)
	switch {
	case err != nil:
		return belljar.Run{}, err
	case r != nil:
		return r.State(), nil
	}
	row.Run.LastSeq = row.LastSeq
	return row.Run, nil
}

// List returns the caller's runs. An operator can name another user.
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
func (v runs) Stdin(ctx context.Context, id string) (belljar.Stdin, error) {
	r, err := v.service.liveRun(ctx, v.caller, id)
	if err != nil {
		return nil, err
	}
	return v.service.runs.OpenStdin(v.caller, r)
}

// Cancel stops a run. It returns once the run is sure to end, even if this process dies.
func (v runs) Cancel(ctx context.Context, id string) error {
	r, row, err := v.service.findRun(ctx, v.caller, id)
	switch {
	case r != nil:
		return r.Cancel(ctx, v.caller)
	case err == nil && !row.Phase.Terminal():
		return notLive(row.Run)
	}
	return err
}

// Frames yields a run's log and follows it to its end.
func (v runs) Frames(ctx context.Context, id string, from uint64) iter.Seq2[belljar.Frame, error] {
	r, row, err := v.service.findRun(ctx, v.caller, id)
	turns := func(ctx context.Context, log iter.Seq2[belljar.Frame, error], from, last uint64) iter.Seq2[belljar.Frame, error] {
		return inTurns(ctx, v.service.logTurns, v.caller.ID, log, from, last)
	}
	switch {
	case err != nil:
		return failed(err)
	case r != nil:
		return v.service.runs.Follow(ctx, r, from, turns)
	case !row.Phase.Terminal():
		return failed(elsewhere(id))
	}
	return v.service.runs.Replay(ctx, row, from, turns)
}

// failed returns a log that yields only an error.
func failed(err error) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) { yield(belljar.Frame{}, err) }
}
