package upstream

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"sync"
	"time"
)

// VersionHeader is the version of the workspace API that a server speaks, in each of its answers.
const VersionHeader = "X-Workspace-API-Version"

// Check finds out whether a workspace service is there, lets us in, and fits. Its answer is kept for a while. Make one with [NewCheck];
// it is safe for concurrent use.
type Check struct {
	opts CheckOptions

	mu    sync.Mutex
	err   error
	until time.Time
}

// CheckOptions configure a check. Guard and Version are required.
type CheckOptions struct {
	Guard   *Guard
	Version string // of the workspace API that is spoken here
	// Health and Meta are the paths; "" is /healthz and /__meta/version.
	Health, Meta string
	// Keep is how long a good answer holds; 0 is 1 min. A sandbox that is asked more often may never rest. A bad one holds for 5 s.
	Keep time.Duration
	// Also is asked last; nil is nothing more.
	Also func(context.Context) error
	// Observe learns how long a check took and why it failed, "" if it did not; nil is none.
	Observe func(took time.Duration, why Reason)
}

// NewCheck returns a check, which has asked for nothing yet.
func NewCheck(o CheckOptions) *Check {
	o.Health = cmp.Or(o.Health, "/healthz")
	o.Meta = cmp.Or(o.Meta, "/__meta/version")
	o.Keep = cmp.Or(o.Keep, time.Minute)
	return &Check{opts: o}
}

const (
	checkTime = 5 * time.Second // how long a check may take
	keepBad   = 5 * time.Second // how long a bad answer holds
)

// Ready returns nil, or why the service cannot be used: a [*Failure]. Callers at the same time share one check, which goes on when they
// leave.
func (c *Check) Ready(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- c.now(context.WithoutCancel(ctx)) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Check) now(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.until) {
		return c.err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	begun := time.Now()
	c.err = c.ask(ctx)
	c.until = time.Now().Add(c.opts.Keep)
	if c.err != nil {
		c.until = time.Now().Add(keepBad)
	}
	if c.opts.Observe != nil {
		c.opts.Observe(time.Since(begun), ReasonOf(c.err))
	}
	return c.err
}

func (c *Check) ask(ctx context.Context) error {
	var health map[string]any
	if _, err := c.opts.Guard.Do(ctx, Call{Path: c.opts.Health, Into: &health}); err != nil {
		return err
	}
	var meta struct {
		Version string `json:"version"`
	}
	header, err := c.opts.Guard.Do(ctx, Call{Path: c.opts.Meta, Into: &meta})
	if err != nil {
		return err
	}
	version := meta.Version
	if h := header.Get(VersionHeader); h != "" {
		version = h
	}
	if !fits(version, c.opts.Version) {
		return &Failure{Reason: VersionMismatch, text: "it speaks another version of the workspace API than " + c.opts.Version}
	}
	if c.opts.Also != nil {
		return c.opts.Also(ctx)
	}
	return nil
}

// fits reports whether two versions understand each other: the first number is the same and, as long as that is 0, the second one too.
func fits(theirs, ours string) bool {
	a, b := strings.Split(theirs, "."), strings.Split(ours, ".")
	for _, n := range a {
		if _, err := strconv.ParseUint(n, 10, 32); err != nil {
			return false
		}
	}
	if a[0] != b[0] {
		return false
	}
	return a[0] != "0" || len(a) > 1 && len(b) > 1 && a[1] == b[1]
}
