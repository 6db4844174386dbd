package run

import (
	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/admission"
)

// captured is the artifacts of a run, sorted by path. A nil value is empty.
type captured struct {
	artifacts []belljar.Artifact
	room      int64 // bytes that the run may still add
	size      int64 // bytes kept
	names     int64 // bytes of names
	allowance *admission.Allowance
}

// name takes room on record for the name of a file; false if the quota leaves none.
func (c *captured) name(f wire.FileInfo) bool {
	before, n := c.over(), int64(len(f.Path)+len(f.Target))
	c.names += n
	if more := c.over() - before; more > 0 && !c.allowance.Reserve(more) {
		c.names -= n
		return false
	}
	return true
}

// over is how much of the names counts as bytes of artifacts.
func (c *captured) over() int64 { return max(0, c.names-freeNames) }

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

// bytes is how much of the quota all of them take.
func (c *captured) bytes() int64 {
	if c == nil {
		return 0
	}
	return c.size + c.over()
}

// recorded releases the reservation: the artifacts are on record, or never will be.
func (c *captured) recorded() {
	if c != nil {
		c.allowance.Close()
	}
}
