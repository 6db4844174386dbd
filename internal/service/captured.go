package service

import (
	"fmt"
	"io"
	"slices"

	"github.com/belljar/belljar"
)

// captured is what a run left, in the order of paths. A nil one is empty.
type captured struct {
	artifacts []belljar.Artifact
	offsets   []int64 // of each artifact's bytes in the spool
	spool     *spool
	room      int64 // bytes that may still be kept
	size      int64 // bytes kept
}

// put adds an artifact whose bytes, if it has any, begin at offset.
func (c *captured) put(a belljar.Artifact, offset int64) {
	c.artifacts = append(c.artifacts, a)
	c.offsets = append(c.offsets, offset)
	if a.Skipped == "" {
		c.size += a.Size
	}
}

func (c *captured) list() []belljar.Artifact {
	if c == nil {
		return []belljar.Artifact{}
	}
	return append([]belljar.Artifact{}, c.artifacts...)
}

// bytes is how much all of them hold.
func (c *captured) bytes() int64 {
	if c == nil {
		return 0
	}
	return c.size
}

// open returns the artifact at path, which is clean, and its bytes from offset on.
func (c *captured) open(path string, offset int64) (belljar.Artifact, io.ReadCloser, error) {
	i := -1
	if c != nil {
		i = slices.IndexFunc(c.artifacts, func(a belljar.Artifact) bool { return a.Path == path })
	}
	if i < 0 {
		return belljar.Artifact{}, nil, &belljar.Error{
			Code: belljar.CodeNotFound, Message: fmt.Sprintf("artifact %q does not exist", path),
			Details: map[string]any{"path": path},
		}
	}
	a := c.artifacts[i]
	if a.Skipped != "" || a.LinkTarget != "" {
		why := a.Skipped
		if why == "" {
			why = "symbolic link"
		}
		return belljar.Artifact{}, nil, &belljar.Error{
			Code: belljar.CodeNotFound, Message: fmt.Sprintf("artifact %q has no bytes: %s", path, why),
			Details: map[string]any{"path": path, "reason": why},
		}
	}
	offset = max(0, min(offset, a.Size))
	r, err := c.spool.open(c.offsets[i]+offset, a.Size-offset)
	if err != nil {
		return belljar.Artifact{}, nil, &belljar.Error{Code: belljar.CodeInternal, Message: "open artifact " + path, Err: err}
	}
	return a, r, nil
}

// release lets the bytes go when the last reader is done.
func (c *captured) release() {
	if c != nil {
		c.spool.release()
	}
}
