package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// wish is what a request says about the runtime it wants.
type wish struct {
	runtime   string
	isolation runtime.Isolation
	trust     belljar.TrustLevel
	image     string
}

func wishOf(req belljar.RunRequest) wish {
	return wish{req.Runtime, runtime.Isolation(req.Isolation), req.TrustLevel, req.BaseImage}
}

// choice is a runtime that will do, what it can do here, and why it was this one.
type choice struct {
	host *host
	caps runtime.Capabilities
	why  string
}

// bound is the weakest isolation that a request may run in, "" for any, and what says so: a field of the request or a
// rule of the policy.
type bound struct {
	least runtime.Isolation
	by    string
}

// raise makes the bound at least so strong.
func (b *bound) raise(least runtime.Isolation, by string) {
	if least != "" && (b.least == "" || !b.least.AtLeast(least)) {
		b.least, b.by = least, by
	}
}

func (b bound) met(by runtime.Isolation) bool { return b.least == "" || by.AtLeast(b.least) }

// The sources of a bound.
const (
	byIsolation = "isolation"
	byTrust     = "trust_level"
	byDefault   = "SANDBOX_DEFAULT_TRUST_LEVEL"
)

// boundOf works out the bound of a request. Only operators get below that of the default trust level.
func (s *Service) boundOf(caller belljar.Caller, w wish) (b bound) {
	b.raise(w.isolation, byIsolation)
	if w.trust != "" {
		b.raise(s.opts.Policy.least(w.trust), byTrust)
	}
	if usual := s.opts.Policy.DefaultTrust; usual != "" && (w.trust == "" || !caller.Admin()) {
		b.raise(s.opts.Policy.least(usual), byDefault)
	}
	return b
}

// choose returns the runtime of a request: the one it names; else the default one, or if that will not do, or if a class or
// a level was asked for, the fastest that will. One that is weaker than the bound is never taken, nor one that the request
// did not mean.
func (s *Service) choose(ctx context.Context, caller belljar.Caller, w wish) (choice, error) {
	b := s.boundOf(caller, w)
	if w.runtime != "" {
		c, err := s.pick(ctx, w.runtime)
		if err == nil && !b.met(c.caps.Isolation) {
			return choice{}, s.tooWeak(ctx, c, b)
		}
		c.why = "it was asked for"
		return c, err
	}
	if b.by == "" || b.by == byDefault {
		if c, err := s.pick(ctx, ""); err != nil || b.met(c.caps.Isolation) {
			c.why = "it is the default"
			return c, err
		}
	}
	able := s.able(ctx, b)
	able = slices.DeleteFunc(able, func(c choice) bool { return !c.shows(w.image) })
	if len(able) == 0 {
		return choice{}, s.noneStrong(ctx, b, w)
	}
	best := slices.MinFunc(able, func(c, d choice) int { return cmp.Compare(c.caps.Start, d.caps.Start) })
	best.why = fmt.Sprintf("it is the fastest here with isolation %s, as %s wants", orStronger(b.least), b.by)
	return best, nil
}

// shows reports whether a runtime has a use for an image, wherever that is.
func (c choice) shows(image string) bool {
	if image == runtime.HostRef {
		return c.caps.HostImage
	}
	return c.caps.Unpacked || c.host.imager() != nil
}

// able are the runtimes that work here and meet a bound.
func (s *Service) able(ctx context.Context, b bound) (list []choice) {
	for _, h := range s.runtimes {
		caps, err := h.capabilities(ctx)
		if err != nil {
			s.log.Error("runtime could not be probed", "runtime", h.Name(), "err", err)
			continue
		}
		if caps.Available && b.met(caps.Isolation) {
			list = append(list, choice{h, caps, ""})
		}
	}
	return list
}

// namesOf are the names of runtimes.
func namesOf(list []choice) []string {
	names := []string{}
	for _, c := range list {
		names = append(names, c.host.Name())
	}
	return names
}

// tooWeak refuses a runtime that was asked for and is below the bound.
func (s *Service) tooWeak(ctx context.Context, c choice, b bound) error {
	e := &belljar.Error{
		Code:    belljar.CodePolicyDenied,
		Message: fmt.Sprintf("runtime %s isolates by %s, but %s wants %s", c.host.Name(), c.caps.Isolation, b.by, orStronger(b.least)),
		Details: map[string]any{
			"field": "runtime", "provided": c.host.Name(), "isolation": c.caps.Isolation, "minimum": b.least, "rule": b.by,
			"suggested": namesOf(s.able(ctx, b)),
		},
		Hint: "leave runtime out, and the fastest that will do is taken",
	}
	if b.by == byIsolation {
		e.Code = belljar.CodeInvalidRequest
	}
	return e
}

// noneStrong says that this host has no runtime that meets a bound, and why not those that could.
func (s *Service) noneStrong(ctx context.Context, b bound, w wish) error {
	reasons := map[string]any{}
	e := &belljar.Error{
		Code:    belljar.CodeRuntimeUnavailable,
		Message: fmt.Sprintf("no runtime here isolates by %s, as %s wants", orStronger(b.least), b.by),
		Details: map[string]any{"isolation": b.least, "available": false, "suggested": []string{}, "reasons": reasons},
		Hint:    "belljar doctor shows what this host can run",
	}
	for _, h := range s.runtimes {
		caps, err := h.capabilities(ctx)
		switch {
		case err != nil || !b.met(caps.Isolation):
		case !caps.Available:
			reasons[h.Name()] = caps.Reasons
			if len(caps.Reasons) > 0 && caps.Reasons[0].Hint != "" {
				e.Hint = h.Name() + ": " + caps.Reasons[0].Hint
			}
		default: // it cannot have the image
			reasons[h.Name()] = "it cannot use the image " + w.image
			e.Hint = "name an image that " + h.Name() + " can use"
		}
	}
	return e
}

func orStronger(least runtime.Isolation) string {
	if least == runtime.IsolationMicroVM {
		return string(least)
	}
	return string(least) + " or stronger"
}
