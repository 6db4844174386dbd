package snapshot

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/shelf"
)

// forksAtOnce is how many copies of a session are made at the same time.
const forksAtOnce = 8

// Fork makes copies of a session: all of them, or none.
func (v view) Fork(ctx context.Context, id string, spec belljar.ForkSpec) (made belljar.Fork, err error) {
	if err := spec.Validate(); err != nil {
		return belljar.Fork{}, err
	}
	w, err := v.snapshots.opts.Acquire(ctx, v.caller, id)
	if err != nil {
		return belljar.Fork{}, err
	}
	ctx, end := using(ctx, w)
	defer end()
	defer func() {
		if err != nil {
			made, err = belljar.Fork{}, v.snapshots.fault(ctx, w, err)
		}
	}()
	if err := v.snapshots.opts.Accounts.Room(ctx, v.caller.ID); err != nil {
		return made, err
	}
	source := v.filesOf
	if spec.Live {
		source = v.stateOf
	}
	from, done, err := source(ctx, w, &made)
	if err != nil {
		return made, err
	}
	defer done()
	if made.Sessions, err = v.copies(ctx, id, from, max(spec.Count, 1)); err != nil {
		return made, err
	}
	v.snapshots.record(event.SessionForked, v.caller, from.of, from.of.Kind)
	return made, nil
}

// filesOf returns the source of copies of a session, valid until done is called, and sets the fields of made about it.
func (v view) filesOf(ctx context.Context, w Workspace, made *belljar.Fork) (from *Source, done func(), err error) {
	var state *shellState
	if leave, ok := w.Shell(); ok {
		state = captureShell(ctx, w) // before the files: a command that ends in between is in neither
		leave()
	}
	p, err := v.snapshots.save(ctx, w, false)
	if err != nil {
		return nil, nil, err
	}
	from = &Source{all: v.snapshots, of: belljar.Snapshot{Digest: p.digest, Bytes: p.Bytes, Files: p.Files, SessionID: w.Session().ID}}
	from.open = func(ctx context.Context) (io.ReadCloser, error) { return io.NopCloser(&during{ctx, p.reader()}), nil }
	made.Consistent, made.Shell = p.frozen, state != nil
	if state != nil {
		made.Omitted, from.shell = state.omitted, state.command()
	}
	return from, func() {
		p.close()
		if has, err := v.snapshots.opts.Store.Has(context.WithoutCancel(ctx), w.Session().UserID, p.digest); err == nil && !has {
			v.snapshots.unpackedOf(p.digest, (*shelf.Shelf).Forget) // the copies hold their part of it
		}
	}, nil
}

// copies makes copies of a session, and ends them again if one fails.
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
			if made[i], errs[i] = v.snapshots.opts.Copy(ctx, v.caller, id, from); errs[i] != nil {
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
			v.snapshots.opts.Discard(made[i].ID)
		}
	}
	return nil, context.Cause(ctx) // the first error: it cancelled the others
}
