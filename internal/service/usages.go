package service

import (
	"context"
	"iter"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/session"
)

// usages is the usage of running sandboxes, as one caller sees it.
type usages struct{ view }

var _ belljar.Usages = usages{}

// Run yields samples of a run's sandbox, until the run ends.
func (v usages) Run(ctx context.Context, id string) iter.Seq2[belljar.UsageSample, error] {
	return func(yield func(belljar.UsageSample, error) bool) {
		r, row, err := v.service.findRun(ctx, v.caller, id)
		switch {
		case err != nil:
			yield(belljar.UsageSample{}, err)
			return
		case r == nil && row.Phase.Terminal():
			return
		case r == nil:
			yield(belljar.UsageSample{}, elsewhere(id))
			return
		}
		over, stop := context.WithCancel(ctx)
		waited := make(chan struct{})
		go func() {
			defer close(waited)
			r.Wait(over)
			stop()
		}()
		defer func() {
			stop()
			<-waited
		}()
		box, scope := id, "run"
		if in := r.Snapshot().SessionID; in != "" {
			box, scope = in, "session"
		}
		v.watch(ctx, box, scope, over.Done(), func() bool { return r.Snapshot().Phase.Terminal() }, yield)
	}
}

// Session yields samples of a session's sandbox, until the session ends.
func (v usages) Session(ctx context.Context, id string) iter.Seq2[belljar.UsageSample, error] {
	return func(yield func(belljar.UsageSample, error) bool) {
		x, row, err := v.service.findSession(ctx, v.caller, id)
		switch {
		case err != nil:
			yield(belljar.UsageSample{}, err)
		case x != nil:
			life := session.Life(x)
			v.watch(ctx, id, "session", life.Done(), func() bool { return !session.Detached(x) }, yield)
		case !row.State.Ended():
			yield(belljar.UsageSample{}, elsewhere(id))
		}
	}
}

// watch yields samples until over is closed. ended reports whether the run or session has really ended.
func (v usages) watch(
	ctx context.Context, id, scope string, over <-chan struct{}, ended func() bool, yield func(belljar.UsageSample, error) bool,
) {
	for sample, err := range v.service.meter.Watch(ctx, v.caller.ID, id, over) {
		sample.Scope = scope
		if !yield(sample, err) || err != nil {
			return
		}
	}
	switch {
	case ctx.Err() != nil:
		yield(belljar.UsageSample{}, context.Cause(ctx))
	case !ended():
		yield(belljar.UsageSample{}, fault.ShuttingDown())
	}
}

// elsewhere is the error for a run or session that belongs to another process.
func elsewhere(id string) error {
	return &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: id + " has not ended, and is in another belljar process", Details: map[string]any{"id": id},
	}
}
