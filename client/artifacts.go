package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
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
	var found belljar.Artifact
	if offset > 0 { // the server refuses a range after the end
		if found, err = a.find(ctx, runID, clean); err != nil {
			return belljar.Artifact{}, nil, err
		}
		if offset >= found.Size {
			return found, io.NopCloser(strings.NewReader("")), nil
		}
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
	switch described, ok := describe(resp, clean); {
	case offset > 0 && resp.StatusCode != http.StatusPartialContent: // a proxy does not support ranges
		if _, err = io.CopyN(io.Discard, resp.Body, offset); err != nil {
			err = callerError(a.c.transportError(ctx, "the artifact broke off", err))
		}
	case offset > 0:
	case ok:
		found = described
	default:
		found, err = a.find(ctx, runID, clean)
	}
	if err != nil {
		resp.Body.Close()
		return belljar.Artifact{}, nil, err
	}
	return found, contentsOf(ctx, a.c, resp, "artifact"), nil
}

// describe returns the artifact of a response that has all of its bytes. An older server, or a proxy, may leave out what it needs.
func describe(resp *http.Response, path string) (belljar.Artifact, bool) {
	mode, err := strconv.ParseUint(resp.Header.Get("Belljar-File-Mode"), 8, 32)
	tag := strings.TrimPrefix(resp.Header.Get("ETag"), "W/")
	return belljar.Artifact{Path: path, Size: resp.ContentLength, Mode: uint32(mode), Digest: strings.Trim(tag, `"`)}, err == nil && resp.ContentLength >= 0
}

// find returns an artifact from the list of a run's.
func (a artifacts) find(ctx context.Context, runID, path string) (belljar.Artifact, error) {
	list, err := a.List(ctx, runID)
	if err != nil {
		return belljar.Artifact{}, err
	}
	i := slices.IndexFunc(list, func(a belljar.Artifact) bool { return a.Path == path })
	if i < 0 {
		return belljar.Artifact{}, &belljar.Error{
			Code: belljar.CodeNotFound, Message: fmt.Sprintf("run %s left no artifact %q", runID, path),
			Details: map[string]any{"run_id": runID, "path": path},
		}
	}
	return list[i], nil
}
