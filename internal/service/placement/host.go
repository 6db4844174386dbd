package placement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belljar/belljar/internal/runtime"
)

// Host is a runtime with what it found out about this host.
type Host struct {
	runtime.Runtime
	mu     sync.Mutex // one probe at a time
	caps   *runtime.Capabilities
	denied runtime.Capabilities // what the last probe found that found it not available
	at     time.Time            // when that ended

	// What the last probe found, for callers that must not wait for the next.
	worked atomic.Bool
	start  atomic.Int64 // [runtime.Capabilities.Start]; 0 is not known

	// Orphans is what is known of orphaned sandboxes on it.
	Orphans Orphans
}

// NewHost returns a runtime that has not been probed.
func NewHost(rt runtime.Runtime) *Host { return &Host{Runtime: rt} }

// Hosts are the runtimes of a service. The first is the default.
type Hosts []*Host

// Named returns the runtime of that name, or nil.
func (list Hosts) Named(name string) *Host {
	i := slices.IndexFunc(list, func(h *Host) bool { return h.Name() == name })
	if i < 0 {
		return nil
	}
	return list[i]
}

// Capabilities probes once and remembers; a host that was not available is asked again, for it may have been fixed. Those
// who wait for a probe share what it finds: one that takes its time would make each wait for all before.
func (h *Host) Capabilities(ctx context.Context) (runtime.Capabilities, error) {
	came := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.caps != nil {
		return *h.caps, nil
	}
	if h.at.After(came) {
		return h.denied, nil
	}
	caps, err := h.Probe(ctx)
	if err != nil {
		return caps, fmt.Errorf("probe runtime %s: %w", h.Name(), err)
	}
	h.worked.Store(caps.Available)
	h.start.Store(int64(caps.Start))
	if caps.Available {
		h.caps = &caps
	} else {
		h.denied, h.at = caps, time.Now()
	}
	return caps, nil
}

// Trouble is 0 for a runtime that worked when it was last probed, 1 for others.
func (h *Host) Trouble() int {
	if h.worked.Load() {
		return 0
	}
	return 1
}

// StartTime is about how long a cold start takes, by the last probe; 0 if that is not known.
func (h *Host) StartTime() time.Duration { return time.Duration(h.start.Load()) }

// Explain is why no sandbox could be made: the fault itself or, where it turns out that the runtime stopped working, what is
// missing. Later requests learn that at once.
func (h *Host) Explain(ctx context.Context, fault error) error {
	var step *runtime.StepError
	if !errors.As(fault, &step) || errors.Is(fault, runtime.ErrNoImage) || errors.Is(fault, runtime.ErrFull) {
		return fault
	}
	caps, err := h.Refresh(ctx)
	if err != nil || caps.Available || len(caps.Reasons) == 0 {
		return fault
	}
	why := caps.Reasons[0]
	return &runtime.StepError{Step: why.Step, Err: errors.New(why.Detail), Hint: why.Hint}
}

// Refresh probes now, whatever the last probe returned.
func (h *Host) Refresh(ctx context.Context) (runtime.Capabilities, error) {
	h.mu.Lock()
	h.caps = nil
	h.mu.Unlock()
	return h.Capabilities(ctx)
}

// Imager is the runtime's engine, if it keeps images of its own; nil if not.
func (h *Host) Imager() runtime.Imager {
	i, _ := runtime.As[runtime.Imager](h.Runtime)
	return i
}

// Orphans is what is known of orphaned sandboxes on a runtime. The zero value suspects none.
type Orphans struct {
	mu        sync.Mutex
	suspected bool     // there may be some: the runtime could not be asked, or did not remove all
	since     bool     // that was noted after the last look began, which may not have seen them
	seen      []string // by the last look
}

// Suspect has the reaper look for orphans, until there are none.
func (o *Orphans) Suspect() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.suspected, o.since = true, true
}

// Suspected begins a look. It reports whether there may be some, and those that the last look found.
func (o *Orphans) Suspected() (suspected bool, seen []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since = false
	return o.suspected, o.seen
}

// Found ends a look, and notes what it found.
func (o *Orphans) Found(ids []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen, o.suspected = ids, len(ids) > 0 || o.since
}
