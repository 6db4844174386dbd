package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/run"
	"github.com/belljar/belljar/internal/store"
)

// artifacts is the artifacts of finished runs, as one caller sees them.
type artifacts struct{ view }

var _ belljar.Artifacts = artifacts{}

// List lists the artifacts of a finished run. An artifact whose bytes were not kept, or were swept, has the reason.
func (v artifacts) List(ctx context.Context, id string) ([]belljar.Artifact, error) {
	r, row, err := v.service.findRun(ctx, v.caller, id)
	if err != nil {
		return nil, err
	}
	if r != nil {
		return []belljar.Artifact{}, nil
	}
	list, err := row.ArtifactList()
	if err != nil {
		return nil, fault.Record("read the artifacts of run "+id, err)
	}
	for i := range list {
		noteGone(&row, &list[i])
	}
	return append([]belljar.Artifact{}, list...), nil
}

// noteGone sets the reason for the missing bytes of an artifact that was swept.
func noteGone(row *store.Run, a *belljar.Artifact) {
	if row.ArtifactsGone && a.LinkTarget == "" && a.Skipped == "" {
		a.Skipped = run.SkippedExpired
	}
}

// Open returns one artifact and its bytes from offset on.
func (v artifacts) Open(ctx context.Context, id, path string, offset int64) (belljar.Artifact, io.ReadCloser, error) {
	r, row, err := v.service.findRun(ctx, v.caller, id)
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
	found, err := row.Artifact(clean)
	switch {
	case err != nil:
		return belljar.Artifact{}, nil, fault.Record("read the artifacts of run "+id, err)
	case r != nil || found == nil:
		return belljar.Artifact{}, nil, noArtifact(path, "")
	}
	a := *found
	noteGone(&row, &a)
	switch {
	case a.Skipped != "":
		return belljar.Artifact{}, nil, noArtifact(path, a.Skipped)
	case a.LinkTarget != "":
		return belljar.Artifact{}, nil, noArtifact(path, "symbolic link")
	}
	body, err := v.service.open(ctx, row, a, offset)
	if err != nil {
		return belljar.Artifact{}, nil, err
	}
	v.service.emit(event.Event{
		Name: event.ArtifactOpened, Caller: v.caller, Run: &row.Run, Runtime: row.Runtime,
		Count: max(0, a.Size-offset), Files: 1, Detail: map[string]string{"path": a.Path},
	})
	return a, body, nil
}

// open opens the bytes of an artifact.
func (s *Service) open(ctx context.Context, row store.Run, a belljar.Artifact, offset int64) (io.ReadCloser, error) {
	if a.Size == 0 {
		return io.NopCloser(strings.NewReader("")), nil
	}
	key := blob.Key{UserID: row.UserID, RunID: row.ID, Path: a.Path}
	body, err := s.opts.Blobs.Open(ctx, key, max(0, min(offset, a.Size)))
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return nil, noArtifact(a.Path, "its bytes are gone")
	case err != nil:
		return nil, fault.Record("open artifact "+a.Path, err)
	}
	return body, nil
}

func noArtifact(path, why string) error {
	e := &belljar.Error{
		Code: belljar.CodeNotFound, Message: fmt.Sprintf("artifact %q does not exist", path), Details: map[string]any{"path": path},
	}
	if why != "" {
		e.Message, e.Details["reason"] = fmt.Sprintf("artifact %q has no bytes: %s", path, why), why
	}
	return e
}
