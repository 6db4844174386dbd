package upstream

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"sync"
	"time"
)

// VersionHeader is the header with the server's version of the workspace API, in each of its responses.
const VersionHeader = "X-Workspace-API-Version"

// Check tests whether a workspace service is reachable, accepts the credentials, and has a matching version. It caches the result for a
// while. Make one with [NewCheck]; it is safe for concurrent use.
type Check struct {
	opts CheckOptions

	mu    sync.Mutex
	err   error
	until time.Time
}

// CheckOptions configure a check. Guard and Version are required.
type CheckOptions struct {
	Guard   *Guard
	Version string // this program's version of the workspace API
	// Health and Meta are the paths; "" is /healthz and /__meta/version.
	Health, Meta string
	// Keep is how long a good result is reused; 0 is 1 min. A sandbox that is checked more often may never rest. A bad result is reused
	// for 5 s.
	Keep time.Duration
	// Also is a further check, called last; nil is none.
	Also func(context.Context) error
	// Observe gets the duration of each check and the reason of a failure, "" after a success; nil is none.
	Observe func(took time.Duration, why Reason)
}

// NewCheck returns a check that has sent no request yet.
func NewCheck(o CheckOptions) *Check {
	o.Health = cmp.Or(o.Health, "/healthz")
	o.Meta = cmp.Or(o.Meta, "/__meta/version")
	o.Keep = cmp.Or(o.Keep, time.Minute)
	return &Check{opts: o}
}

const (
	checkTime = 5 * time.Second // how long a check may take
	keepBad   = 5 * time.Second // how long a bad result is reused
)

// Ready returns nil, or the reason why the service cannot be used: a [*Failure]. Concurrent callers share one check, which continues
// when they leave.
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

// fits reports whether two versions are compatible: the first numbers are equal and, while they are 0, the second ones, too.
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
