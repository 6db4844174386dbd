package run

import (
	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/admission"
)

// captured is the artifacts of a run, sorted by path. A nil value is empty.
type captured struct {
	artifacts []belljar.Artifact
	room      int64 // bytes that the run may still add
	size      int64 // bytes kept
	allowance *admission.Allowance
}

// put adds an artifact.
func (c *captured) put(a belljar.Artifact) {
	c.artifacts = append(c.artifacts, a)
	if a.Skipped == "" {
		c.size += a.Size
	}
}

// list returns the artifacts, never nil.
func (c *captured) list() []belljar.Artifact {
	if c == nil || c.artifacts == nil {
		return []belljar.Artifact{}
	}
	return c.artifacts
}

// bytes returns the total bytes.
func (c *captured) bytes() int64 {
	if c == nil {
		return 0
	}
	return c.size
}

// recorded releases the reservation: the artifacts are on record, or never will be.
func (c *captured) recorded() {
	if c != nil {
		c.allowance.Close()
	}
}
