package service

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/belljar/belljar"
)

// runs is the runs of the service as one caller sees them.
type runs struct{ view }

var _ belljar.Runs = runs{}

// Start admits a run and sets it going.
func (v runs) Start(ctx context.Context, req belljar.RunRequest) (belljar.Run, error) {
	p, err := v.service.admit(ctx, v.caller, req)
	if err != nil {
		return belljar.Run{}, err
	}
	r, err := v.service.newRun(v.caller, p)
	if err != nil {
		return belljar.Run{}, err
	}
	err = r.become(belljar.PhaseStarting)
	if err == nil {
		err = v.service.launch(r)
	}
	if err != nil {
		v.service.abandon(r)
		return belljar.Run{}, asError("start run", err)
	}
	return r.snapshot(), nil
}

// Get returns a run as it stands.
func (v runs) Get(_ context.Context, id string) (belljar.Run, error) {
	r, err := v.service.lookup(v.caller, id)
	if err != nil {
		return belljar.Run{}, err
	}
	return r.snapshot(), nil
}

// Frames yields a run's log and follows it to its end.
func (v runs) Frames(ctx context.Context, id string, from uint64) iter.Seq2[belljar.Frame, error] {
	r, err := v.service.lookup(v.caller, id)
	if err != nil {
		return func(yield func(belljar.Frame, error) bool) { yield(belljar.Frame{}, err) }
	}
	if from == belljar.Tail {
		from = r.log.Last() + 1
	}
	return r.log.Read(ctx, from)
}

// List returns the caller's runs.
func (v runs) List(context.Context, belljar.RunQuery) (belljar.RunPage, error) {
	return belljar.RunPage{}, absent("list")
}

// Stdin opens the standard input of an interactive run.
func (v runs) Stdin(_ context.Context, id string) (belljar.Stdin, error) {
	return v.service.openStdin(v.caller, id)
}

// Cancel asks a run to end.
func (v runs) Cancel(_ context.Context, id string) error {
	r, err := v.service.lookup(v.caller, id)
	if err != nil {
		return err
	}
	r.stop(errCanceled)
	return nil
}

// artifacts is what finished runs left, as one caller sees it.
type artifacts struct{ view }

var _ belljar.Artifacts = artifacts{}

// List lists what a finished run left.
func (v artifacts) List(_ context.Context, id string) ([]belljar.Artifact, error) {
	r, err := v.service.lookup(v.caller, id)
	if err != nil {
		return nil, err
	}
	return r.artifacts().list(), nil
}

// Open returns one artifact and its bytes from offset on.
func (v artifacts) Open(_ context.Context, id, path string, offset int64) (belljar.Artifact, io.ReadCloser, error) {
	r, err := v.service.lookup(v.caller, id)
	if err != nil {
		return belljar.Artifact{}, nil, err
	}
	clean, err := belljar.CleanPath(path)
	if err != nil {
		return belljar.Artifact{}, nil, &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("artifact %q: %v", path, err),
			Details: map[string]any{"field": "path", "provided": path},
		}
	}
	return r.artifacts().open(clean, offset)
}

// asError makes err an [belljar.Error], internal unless it is one.
func asError(doing string, err error) error {
	if belljar.CodeOf(err) != belljar.CodeInternal {
		return err
	}
	return &belljar.Error{Code: belljar.CodeInternal, Message: doing, Err: err}
}
