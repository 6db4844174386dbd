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

// Host is a runtime with its capabilities on this host.
type Host struct {
	runtime.Runtime
	mu     sync.Mutex // held during a probe
	caps   *runtime.Capabilities
	denied runtime.Capabilities // the last result that was not available
	at     time.Time            // end time of that probe
	tested time.Time            // start time of the last test ([runtime.Tester]); zero if there was none
	broken bool                 // the last test failed although the probe shows nothing: only a test can show that it works again

	// The result of the last probe, for callers that must not wait for the next one.
	worked atomic.Bool
	start  atomic.Int64 // [runtime.Capabilities.Start]; 0 is unknown

	// Orphans tracks the orphaned sandboxes of this runtime.
	Orphans Orphans
}

// NewHost returns a runtime that has not been probed.
func NewHost(rt runtime.Runtime) *Host { return &Host{Runtime: rt} }

// Hosts are the runtimes of a service. The first is the default.
type Hosts []*Host

// Named returns the runtime with a name, or nil.
func (list Hosts) Named(name string) *Host {
	i := slices.IndexFunc(list, func(h *Host) bool { return h.Name() == name })
	if i < 0 {
		return nil
	}
	return list[i]
}

// testEvery is the minimum interval between tests, which cost as much as a sandbox.
const testEvery = time.Second

// Capabilities probes once and caches the result. It probes an unavailable host again, because it may have been fixed.
// Concurrent callers share one probe, so that a slow probe does not delay each of them in turn.
func (h *Host) Capabilities(ctx context.Context) (runtime.Capabilities, error) {
	came := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.caps != nil {
		return *h.caps, nil
	}
	if h.at.After(came) || h.broken && came.Sub(h.tested) < testEvery {
		return h.denied, nil
	}
	probe := h.Probe
	if t, ok := runtime.As[runtime.Tester](h.Runtime); ok && h.broken {
		probe, h.tested = t.Test, came
	}
	caps, err := probe(ctx)
	if err != nil && h.broken {
		return h.denied, nil
	}
	if err != nil {
		return caps, fmt.Errorf("probe runtime %s: %w", h.Name(), err)
	}
	h.worked.Store(caps.Available)
	h.start.Store(int64(caps.Start))
	if caps.Available {
		h.caps, h.broken = &caps, false
	} else {
		h.denied, h.at = caps, time.Now()
	}
	return caps, nil
}

// Trouble returns 0 for a runtime that worked in the last probe, 1 for others.
func (h *Host) Trouble() int {
	if h.worked.Load() {
		return 0
	}
	return 1
}

// StartTime returns the approximate time of a cold start, from the last probe; 0 if unknown.
func (h *Host) StartTime() time.Duration { return time.Duration(h.start.Load()) }

// Explain returns why no sandbox could be made: the fault itself or, if a new probe or test shows that the runtime has stopped
// working, the missing requirement. Later requests then fail immediately.
func (h *Host) Explain(ctx context.Context, fault error) error {
	var step *runtime.StepError
	if !errors.As(fault, &step) || errors.Is(fault, runtime.ErrNoImage) || errors.Is(fault, runtime.ErrFull) {
		return fault
	}
	caps, err := h.Refresh(ctx)
	if err == nil && caps.Available {
		caps, err = h.test(ctx, caps)
	}
	if err != nil || caps.Available || len(caps.Reasons) == 0 {
		return fault
	}
	why := caps.Reasons[0]
	return &runtime.StepError{Step: why.Step, Err: errors.New(why.Detail), Hint: why.Hint}
}

// test tests an available runtime, if it can be tested and was not just now, and keeps the result if it fails. It holds no lock
// meanwhile, because most faults concern one request.
func (h *Host) test(ctx context.Context, caps runtime.Capabilities) (runtime.Capabilities, error) {
	t, ok := runtime.As[runtime.Tester](h.Runtime)
	h.mu.Lock()
	now := time.Now()
	if ok = ok && now.Sub(h.tested) >= testEvery; ok {
		h.tested = now
	}
	h.mu.Unlock()
	if !ok {
		return caps, nil
	}
	caps, err := t.Test(ctx)
	if err == nil && !caps.Available {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.worked.Store(false)
		h.caps, h.denied, h.at, h.broken = nil, caps, time.Now(), true
	}
	return caps, err
}

// Refresh probes now, even if a result is cached.
func (h *Host) Refresh(ctx context.Context) (runtime.Capabilities, error) {
	h.mu.Lock()
	h.caps = nil
	h.mu.Unlock()
	return h.Capabilities(ctx)
}

// Imager returns the runtime's engine, if it stores images of its own; nil if not.
func (h *Host) Imager() runtime.Imager {
	i, _ := runtime.As[runtime.Imager](h.Runtime)
	return i
}

// Orphans tracks the orphaned sandboxes of a runtime. The zero value suspects none.
type Orphans struct {
	mu        sync.Mutex
	suspected bool     // there may be orphans: the runtime could not list them, or did not remove all
	since     bool     // suspected was set after the last look began, which may have missed them
	seen      []string // found by the last look
}

// Suspect makes the reaper look for orphans until there are none.
func (o *Orphans) Suspect() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.suspected, o.since = true, true
}

// Suspected begins a look. It reports whether there may be orphans, and returns those that the last look found.
func (o *Orphans) Suspected() (suspected bool, seen []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since = false
	return o.suspected, o.seen
}

// Found ends a look, and stores its result.
func (o *Orphans) Found(ids []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen, o.suspected = ids, len(ids) > 0 || o.since
}
