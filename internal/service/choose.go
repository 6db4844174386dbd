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
	require   []string // protections
}

func wishOf(req belljar.RunRequest, require []string) wish {
	return wish{req.Runtime, runtime.Isolation(req.Isolation), req.TrustLevel, cmp.Or(req.BaseImage, runtime.HostRef), require}
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

// strongEnough refuses what would run in a session whose sandbox was made under an older policy, and is weaker than caller may
// have now.
func (s *Service) strongEnough(caller belljar.Caller, x *session, w wish) error {
	w.trust = cmp.Or(w.trust, x.plan.request.TrustLevel)
	b, is := s.boundOf(caller, w), x.plan.caps.Isolation
	if b.met(is) {
		return nil
	}
	return &belljar.Error{
		Code: belljar.CodePolicyDenied, Message: fmt.Sprintf("the session's sandbox isolates by %s, but %s wants %s", is, b.by, orStronger(b.least)),
		Details: map[string]any{"session_id": x.id, "isolation": is, "minimum": b.least, "rule": b.by},
		Hint:    "close the session, and make one anew",
	}
}

// choose returns the runtime of a request: the one it names; else the default one, or if that is too weak, or if a class or
// a level was asked for, the fastest that will do. One that is weaker than the bound is never taken, nor one that the request
// did not mean.
func (s *Service) choose(ctx context.Context, caller belljar.Caller, w wish) (choice, error) {
	b := s.boundOf(caller, w)
	if w.runtime != "" {
		c, err := s.pick(ctx, w.runtime)
		if err == nil && !b.met(c.caps.Isolation) {
			return choice{}, s.tooWeak(ctx, c, b, w)
		}
		c.why = "it was asked for"
		return c, err
	}
	if w.isolation == "" && w.trust == "" {
		if c, err := s.pick(ctx, ""); err != nil || b.met(c.caps.Isolation) {
			c.why = "it is the default"
			return c, err
		}
	}
	best, ok := s.fastest(ctx, b, w)
	if !ok {
		return choice{}, s.noneFit(ctx, b, w)
	}
	best.why = fmt.Sprintf("it is the fastest here with isolation %s, as %s wants", orStronger(b.least), b.by)
	return best, nil
}

// fastest is the fastest runtime that will do, the first of those that are as fast. Those that worked when they were last
// asked come first, the faster before the slower: others are asked only if they would be faster, for an engine that hangs takes
// its time.
func (s *Service) fastest(ctx context.Context, b bound, w wish) (best choice, ok bool) {
	hosts := slices.Clone(s.runtimes)
	slices.SortStableFunc(hosts, func(g, h *host) int {
		return cmp.Or(cmp.Compare(g.trouble(), h.trouble()), cmp.Compare(g.usualStart(), h.usualStart()))
	})
	at := func(h *host) int { return slices.Index(s.runtimes, h) }
	for _, h := range hosts {
		if usual := h.usualStart(); ok && usual > 0 && usual >= best.caps.Start {
			continue
		}
		c, why := s.fit(ctx, h, b, w)
		if len(why) > 0 {
			continue
		}
		if faster := cmp.Compare(c.caps.Start, best.caps.Start); !ok || faster < 0 || faster == 0 && at(h) < at(best.host) {
			best, ok = c, true
		}
	}
	return best, ok
}

// fit says what a runtime can do for a request here, or why it will not do.
func (s *Service) fit(ctx context.Context, h *host, b bound, w wish) (choice, []runtime.Reason) {
	caps, err := h.capabilities(ctx)
	switch {
	case err != nil:
		s.log.Error("runtime could not be probed", "runtime", h.Name(), "err", err)
		return choice{}, []runtime.Reason{{Code: "probe_failed", Detail: "it could not be probed"}}
	case !b.met(caps.Isolation) && (caps.Available || caps.Isolation != ""): // of what does not work that may not be known
		return choice{}, []runtime.Reason{{Code: "isolation_too_weak", Detail: fmt.Sprintf("it isolates by %s", caps.Isolation)}}
	case !caps.Available && len(caps.Reasons) == 0:
		return choice{}, []runtime.Reason{{Code: "host_prerequisite_missing", Detail: "it does not work on this host"}}
	case !caps.Available:
		return choice{}, caps.Reasons
	}
	c := choice{host: h, caps: caps}
	if !c.shows(w.image) {
		return choice{}, []runtime.Reason{{
			Code: "image_unavailable", Detail: "it cannot use the image " + w.image, Hint: "name an image that " + h.Name() + " can use",
		}}
	}
	var why []runtime.Reason
	for _, name := range w.require {
		if got := caps.Protection(name); !got.Enforced {
			why = append(why, runtime.Reason{Code: "protection_missing", Step: name, Detail: "it cannot enforce protection " + name + " on this host", Hint: got.Hint})
		}
	}
	return c, why
}

// shows reports whether a runtime has a use for an image, wherever that is.
func (c choice) shows(image string) bool {
	if image == runtime.HostRef {
		return c.caps.HostImage
	}
	return c.caps.Unpacked || c.host.imager() != nil
}

// tooWeak refuses a runtime that was asked for and is below the bound.
func (s *Service) tooWeak(ctx context.Context, c choice, b bound, w wish) error {
	able := []string{}
	for _, h := range s.runtimes {
		if _, why := s.fit(ctx, h, b, w); len(why) == 0 {
			able = append(able, h.Name())
		}
	}
	e := &belljar.Error{
		Code:    belljar.CodePolicyDenied,
		Message: fmt.Sprintf("runtime %s isolates by %s, but %s wants %s", c.host.Name(), c.caps.Isolation, b.by, orStronger(b.least)),
		Details: map[string]any{
			"field": "runtime", "provided": c.host.Name(), "isolation": c.caps.Isolation, "minimum": b.least, "rule": b.by,
			"suggested": able,
		},
		Hint: "leave runtime out, and the fastest that will do is taken",
	}
	if len(able) == 0 {
		e.Hint = "no runtime here will do: belljar doctor shows what this host can run"
	}
	if b.by == byIsolation {
		e.Code = belljar.CodeInvalidRequest
	}
	return e
}

// noneFit says that this host has no runtime that will do for a request, and of each why not. What it says in words is of the
// one that is nearest: strong enough, and the first of those.
func (s *Service) noneFit(ctx context.Context, b bound, w wish) error {
	reasons := map[string]any{}
	e := &belljar.Error{
		Code:    belljar.CodeRuntimeUnavailable,
		Message: fmt.Sprintf("no runtime here isolates by %s, as %s wants", orStronger(b.least), b.by),
		Details: map[string]any{"isolation": b.least, "rule": b.by, "available": false, "suggested": []string{}, "reasons": reasons},
		Hint:    "belljar doctor shows what this host can run",
	}
	told := false
	for _, h := range s.runtimes {
		_, why := s.fit(ctx, h, b, w)
		reasons[h.Name()] = why
		if told || len(why) == 0 || why[0].Code == "isolation_too_weak" {
			continue
		}
		told = true
		e.Message += ": " + h.Name() + ": " + why[0].Detail
		if why[0].Hint != "" {
			e.Hint = h.Name() + ": " + why[0].Hint
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
