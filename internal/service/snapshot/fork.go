package snapshot

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
)

// forksAtOnce is how many copies of a session are made at once.
const forksAtOnce = 8

// Fork makes copies of a session: all that are asked for, or none.
func (v view) Fork(ctx context.Context, id string, spec belljar.ForkSpec) (belljar.Fork, error) {
	if err := spec.Validate(); err != nil {
		return belljar.Fork{}, err
	}
	w, err := v.opts.Acquire(ctx, v.caller, id)
	if err != nil {
		return belljar.Fork{}, err
	}
	ctx, end := using(ctx, w)
	defer end()
	if err := v.opts.Accounts.Room(ctx, v.caller.ID); err != nil {
		return belljar.Fork{}, err
	}
	if spec.Live {
		return v.forkLive(ctx, w, spec)
	}
	var state *shellState
	if leave, ok := w.Shell(); ok {
		state = captureShell(ctx, w) // before the files: a command that ends in between is in neither
		leave()
	}
	p, err := v.save(ctx, w, false)
	if err != nil {
		return belljar.Fork{}, err
	}
	defer p.close()
	made := belljar.Fork{Consistent: p.frozen, Shell: state != nil}
	if state != nil {
		made.Omitted = state.omitted
	}
	from := &Source{all: v.Snapshots, of: belljar.Snapshot{Digest: p.digest, Bytes: p.Bytes, Files: p.Files, SessionID: id}}
	if state != nil {
		from.shell = state.command()
	}
	from.open = func(context.Context) (io.ReadCloser, error) { return io.NopCloser(p.reader()), nil }
	made.Sessions, err = v.copies(ctx, id, from, max(spec.Count, 1))
	if has, known := v.opts.Store.Has(context.WithoutCancel(ctx), w.Session().UserID, p.digest); known == nil && !has {
		v.forget(p.digest) // the copies hold what they have of it
	}
	if err != nil {
		return belljar.Fork{}, err
	}
	v.record(event.SessionForked, v.caller, from.of, "")
	return made, nil
}

// copies makes copies of a session, and ends them again if one cannot be made.
func (v view) copies(ctx context.Context, id string, from *Source, count int) ([]belljar.Session, error) {
	made, errs := make([]belljar.Session, count), make([]error, count)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	slots := make(chan struct{}, forksAtOnce)
	var all sync.WaitGroup
	for i := range count {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if errs[i] = context.Cause(ctx); errs[i] != nil {
				return
			}
			if made[i], errs[i] = v.opts.Copy(ctx, v.caller, id, from); errs[i] != nil {
				stop(errs[i])
			}
		})
	}
	all.Wait()
	if errors.Join(errs...) == nil {
		return made, nil
	}
	for i := range made {
		if errs[i] == nil {
			v.opts.Discard(made[i].ID)
		}
	}
	return nil, givenUp(context.Cause(ctx)) // the first one: the others were stopped by it
}
