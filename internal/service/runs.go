package service

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/belljar/belljar"
)

// view is the service as one caller sees it.
type view struct {
	service *Service
	caller  Caller
}

var _ belljar.Runs = (*view)(nil)

// Start admits a run and sets it going.
func (v *view) Start(ctx context.Context, req belljar.RunRequest) (belljar.Run, error) {
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
func (v *view) Get(_ context.Context, id string) (belljar.Run, error) {
	r, err := v.service.lookup(v.caller, id)
	if err != nil {
		return belljar.Run{}, err
	}
	return r.snapshot(), nil
}

// Frames yields a run's log and follows it to its end.
func (v *view) Frames(ctx context.Context, id string, from uint64) iter.Seq2[belljar.Frame, error] {
	r, err := v.service.lookup(v.caller, id)
	if err != nil {
		return func(yield func(belljar.Frame, error) bool) { yield(belljar.Frame{}, err) }
	}
	return r.log.Read(ctx, from)
}

// Cancel asks a run to end.
func (v *view) Cancel(_ context.Context, id string) error {
	r, err := v.service.lookup(v.caller, id)
	if err != nil {
		return err
	}
	r.stop(errCanceled)
	return nil
}

// Artifacts lists what a finished run left.
func (v *view) Artifacts(_ context.Context, id string) ([]belljar.Artifact, error) {
	r, err := v.service.lookup(v.caller, id)
	if err != nil {
		return nil, err
	}
	return r.artifacts().list(), nil
}

// OpenArtifact returns the bytes of one artifact.
func (v *view) OpenArtifact(_ context.Context, id, path string) (io.ReadCloser, error) {
	r, err := v.service.lookup(v.caller, id)
	if err != nil {
		return nil, err
	}
	clean, err := belljar.CleanPath(path)
	if err != nil {
		return nil, &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("artifact %q: %v", path, err),
			Details: map[string]any{"field": "path", "provided": path},
		}
	}
	return r.artifacts().open(clean)
}

// asError makes err an [belljar.Error], internal unless it is one.
func asError(doing string, err error) error {
	if belljar.CodeOf(err) != belljar.CodeInternal {
		return err
	}
	return &belljar.Error{Code: belljar.CodeInternal, Message: doing, Err: err}
}
