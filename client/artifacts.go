package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/belljar/belljar"
)

// artifacts implements [belljar.Artifacts].
type artifacts struct{ c *Client }

// List lists the artifacts of a finished run.
func (a artifacts) List(ctx context.Context, runID string) ([]belljar.Artifact, error) {
	return items[belljar.Artifact](ctx, a.c, nil, "runs", runID, "artifacts")
}

// Open returns one artifact and its bytes, starting at offset.
func (a artifacts) Open(ctx context.Context, runID, file string, offset int64) (belljar.Artifact, io.ReadCloser, error) {
	clean, err := belljar.CleanPath(file)
	if err != nil {
		return belljar.Artifact{}, nil, &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("artifact %q: %v", file, err),
			Details: map[string]any{"field": "path", "provided": file},
		}
	}
	list, err := a.List(ctx, runID)
	if err != nil {
		return belljar.Artifact{}, nil, err
	}
	i := slices.IndexFunc(list, func(a belljar.Artifact) bool { return a.Path == clean })
	if i < 0 {
		return belljar.Artifact{}, nil, &belljar.Error{
			Code: belljar.CodeNotFound, Message: fmt.Sprintf("run %s left no artifact %q", runID, clean),
			Details: map[string]any{"run_id": runID, "path": clean},
		}
	}
	found := list[i]
	if offset > 0 && offset >= found.Size {
		return found, io.NopCloser(strings.NewReader("")), nil
	}
	header := http.Header{"Accept": {"*/*"}, "Accept-Encoding": {"identity"}}
	if offset > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	parts := append([]string{"runs", runID, "artifacts"}, strings.Split(clean, "/")...)
	resp, err := a.c.open(ctx, request{method: http.MethodGet, path: route(parts...), header: header})
	if err != nil {
		return belljar.Artifact{}, nil, err
	}
	if offset > 0 && resp.StatusCode != http.StatusPartialContent { // a proxy does not support ranges
		if _, err := io.CopyN(io.Discard, resp.Body, offset); err != nil {
			resp.Body.Close()
			return belljar.Artifact{}, nil, callerError(a.c.transportError(ctx, "the artifact broke off", err))
		}
	}
	return found, contentsOf(ctx, a.c, resp, "artifact"), nil
}
