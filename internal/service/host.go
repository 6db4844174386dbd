package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// host is a runtime with what it found out about this host.
type host struct {
	runtime.Runtime
	mu     sync.Mutex // one probe at a time
	caps   *runtime.Capabilities
	denied runtime.Capabilities // what the last probe found that found it not available
	at     time.Time            // when that ended

	// What the last probe found, for who must not wait for the next.
	worked atomic.Bool
	start  atomic.Int64 // [runtime.Capabilities.Start]; 0 is not known

	orphans orphans
}

// capabilities probes once and remembers; a host that was not available is asked again, for it may have been mended. Those
// who wait for a probe share what it finds: one that takes its time would make each wait for all before.
func (h *host) capabilities(ctx context.Context) (runtime.Capabilities, error) {
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

// trouble is 0 for a runtime that worked when it was last probed, 1 for others.
func (h *host) trouble() int {
	if h.worked.Load() {
		return 0
	}
	return 1
}

// usualStart is about how long a cold start takes, by the last probe; 0 if that is not known.
func (h *host) usualStart() time.Duration { return time.Duration(h.start.Load()) }

// explain is why no sandbox could be made: the fault itself or, where it turns out that the runtime does not work any more,
// what is missing. Requests to come are told that at once.
func (h *host) explain(ctx context.Context, fault error) error {
	var step *runtime.StepError
	if !errors.As(fault, &step) || errors.Is(fault, runtime.ErrNoImage) || errors.Is(fault, runtime.ErrFull) {
		return fault
	}
	caps, err := h.look(ctx)
	if err != nil || caps.Available || len(caps.Reasons) == 0 {
		return fault
	}
	why := caps.Reasons[0]
	return &runtime.StepError{Step: why.Step, Err: errors.New(why.Detail), Hint: why.Hint}
}

// look probes now, for somebody who wants to know how things stand.
func (h *host) look(ctx context.Context) (runtime.Capabilities, error) {
	h.mu.Lock()
	h.caps = nil
	h.mu.Unlock()
	return h.capabilities(ctx)
}

// pick returns the runtime that a request named, or the default for "", and what it can do here. Never another one:
// one that is unknown or not available is refused, with those that could be named instead.
func (s *Service) pick(ctx context.Context, name string) (choice, error) {
	h := s.runtimes[0]
	if name != "" {
		h = s.runtime(name)
	}
	if h == nil {
		return choice{}, s.unavailable(ctx, name, nil)
	}
	caps, err := h.capabilities(ctx)
	if err != nil {
		return choice{}, &belljar.Error{
			Code: belljar.CodeInternal, Message: "runtime " + h.Name() + " could not be probed", Err: err,
		}
	}
	if !caps.Available {
		return choice{}, s.unavailable(ctx, h.Name(), caps.Reasons)
	}
	return choice{host: h, caps: caps}, nil
}

func (s *Service) unavailable(ctx context.Context, name string, reasons []runtime.Reason) error {
	suggested := []string{}
	for _, h := range s.runtimes {
		if h.Name() == name {
			continue
		}
		if caps, err := h.capabilities(ctx); err == nil && caps.Available {
			suggested = append(suggested, h.Name())
		}
	}
	e := &belljar.Error{
		Code:    belljar.CodeRuntimeUnavailable,
		Message: fmt.Sprintf("requested runtime %q is not available", name),
		Details: map[string]any{"runtime": name, "available": false, "suggested": suggested},
		Hint:    "belljar doctor shows what this host can run",
	}
	if len(reasons) > 0 {
		e.Message += ": " + reasons[0].Detail
		e.Details["reasons"] = reasons
		if reasons[0].Hint != "" {
			e.Hint = reasons[0].Hint
		}
	} else if len(suggested) > 0 {
		e.Hint = "available here: " + strings.Join(suggested, ", ")
	}
	return e
}
