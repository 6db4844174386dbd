package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/placement"
)

// requirements is a request's requirements for its runtime.
type requirements struct {
	runtime   string
	isolation runtime.Isolation
	trust     belljar.TrustLevel
	image     string
	require   []string // protections
	relay     bool     // a network through its relay
	packages  bool     // packages mounted into the sandbox
	disk      bool     // a workspace on disk
}

// Choice is a suitable runtime, its capabilities on this host, and why it was chosen.
type Choice struct {
	Host *placement.Host
	Caps runtime.Capabilities
	Why  string
}

// bound is the weakest isolation that a request may run in, "" for any, and its source: a field of the request or a rule of the policy.
type bound struct {
	least runtime.Isolation
	by    string
}

// raise makes the bound at least this strong.
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

// boundOf returns the bound of a request. Only operators may go below that of the default trust level.
func (r *Rules) boundOf(caller belljar.Caller, w requirements) (b bound) {
	b.raise(w.isolation, byIsolation)
	if w.trust != "" {
		b.raise(r.Policy.WeakestIsolation(w.trust), byTrust)
	}
	if usual := r.Policy.DefaultTrust; usual != "" && (w.trust == "" || !caller.Admin()) {
		b.raise(r.Policy.WeakestIsolation(usual), byDefault)
	}
	return b
}

// Recovered returns the caller of a request on record, as an operator if it needed one: for missing protections, or for the isolation on record,
// below the default trust level. Under another policy than the one on record, it may only be older than the default, and is checked again.
// Records of earlier builds show an operator by nothing else.
func (r *Rules) Recovered(caller belljar.Caller, request Request, isolation string, samePolicy bool) belljar.Caller {
	weak := false
	if usual := r.Policy.DefaultTrust; usual != "" && request.Trust != "" && samePolicy {
		weak = !runtime.Isolation(isolation).AtLeast(r.Policy.WeakestIsolation(usual))
	}
	if weak || len(request.AllowWeak) > 0 {
		caller.Role = belljar.RoleAdmin
	}
	return caller
}

// CheckIsolation refuses a request in a session whose sandbox was made under an older policy, and is weaker than the caller's
// policy permits now. trust is the session's trust level.
func (r *Rules) CheckIsolation(caller belljar.Caller, session string, is runtime.Isolation, trust belljar.TrustLevel, request Request) error {
	w := request.requirements(nil)
	w.trust = cmp.Or(w.trust, trust)
	b := r.boundOf(caller, w)
	if b.met(is) {
		return nil
	}
	return &belljar.Error{
		Code: belljar.CodePolicyDenied, Message: fmt.Sprintf("the session's sandbox isolates by %s, but %s requires %s", is, b.by, orStronger(b.least)),
		Details: map[string]any{"session_id": session, "isolation": is, "minimum": b.least, "rule": b.by},
		Hint:    "close the session, and make a new one",
	}
}

// choose returns the runtime of a request: the one that it names; else the default one; or, if that is too weak, or the request sets a class or
// a trust level, the fastest suitable one. It never returns a runtime below the bound, or one that differs from the one that the request names.
func (r *Rules) choose(ctx context.Context, caller belljar.Caller, w requirements) (Choice, error) {
	b := r.boundOf(caller, w)
	if w.runtime != "" {
		c, err := r.Pick(ctx, w.runtime)
		if err == nil && !b.met(c.Caps.Isolation) {
			return Choice{}, r.tooWeak(ctx, c, b, w)
		}
		c.Why = "the request names it"
		return c, err
	}
	if w.isolation == "" && w.trust == "" {
		if c, err := r.Pick(ctx, ""); err != nil || b.met(c.Caps.Isolation) {
			c.Why = "it is the default"
			return c, err
		}
	}
	best, ok := r.fastest(ctx, b, w)
	if !ok {
		return Choice{}, r.noneFit(ctx, b, w)
	}
	best.Why = fmt.Sprintf("it is the fastest here with isolation %s, as %s requires", orStronger(b.least), b.by)
	return best, nil
}

// Ready returns why users' requests that set neither a runtime, a class nor a trust level are refused, whatever their image; nil if
// they are not.
func (r *Rules) Ready(ctx context.Context) error {
	c, err := r.Pick(ctx, "")
	b := r.boundOf(belljar.Caller{}, requirements{})
	if err != nil || b.met(c.Caps.Isolation) || !r.Policy.EnableExecution {
		return err
	}
	w := requirements{require: r.Require}
	for _, w.image = range []string{"", runtime.HostRef} {
		if _, ok := r.fastest(ctx, b, w); ok {
			return nil
		}
	}
	return r.noneFit(ctx, b, w)
}

// fastest returns the fastest suitable runtime, the first of equally fast ones. It tries the runtimes that worked in the last
// probe first, by speed. It probes others only if they would be faster, because an engine that hangs delays the probe.
func (r *Rules) fastest(ctx context.Context, b bound, w requirements) (best Choice, ok bool) {
	hosts := slices.Clone(r.Hosts)
	slices.SortStableFunc(hosts, func(g, h *placement.Host) int {
		return cmp.Or(cmp.Compare(g.Trouble(), h.Trouble()), cmp.Compare(g.StartTime(), h.StartTime()))
	})
	at := func(h *placement.Host) int { return slices.Index(r.Hosts, h) }
	for _, h := range hosts {
		if usual := h.StartTime(); ok && usual > 0 && usual >= best.Caps.Start {
			continue
		}
		c, why := r.fit(ctx, h, b, w)
		if len(why) > 0 {
			continue
		}
		if faster := cmp.Compare(c.Caps.Start, best.Caps.Start); !ok || faster < 0 || faster == 0 && at(h) < at(best.Host) {
			best, ok = c, true
		}
	}
	return best, ok
}

// fit returns the capabilities of a runtime for a request, or the reasons why it is not suitable.
func (r *Rules) fit(ctx context.Context, h *placement.Host, b bound, w requirements) (Choice, []runtime.Reason) {
	caps, err := h.Capabilities(ctx)
	switch {
	case err != nil:
		r.Log.Error("runtime could not be probed", "runtime", h.Name(), "err", err)
		return Choice{}, []runtime.Reason{{Code: "probe_failed", Detail: "it could not be probed"}}
	case !b.met(caps.Isolation) && (caps.Available || caps.Isolation != ""): // the isolation of an unavailable runtime may be unknown
		return Choice{}, []runtime.Reason{{Code: "isolation_too_weak", Detail: fmt.Sprintf("it isolates by %s", caps.Isolation)}}
	case !caps.Available && len(caps.Reasons) == 0:
		return Choice{}, []runtime.Reason{{Code: "host_prerequisite_missing", Detail: "it does not work on this host"}}
	case !caps.Available:
		return Choice{}, caps.Reasons
	}
	c := Choice{Host: h, Caps: caps}
	if !c.shows(w.image) {
		return Choice{}, []runtime.Reason{{
			Code: "image_unavailable", Detail: "it cannot use the image " + w.image, Hint: "name an image that " + h.Name() + " can use",
		}}
	}
	var why []runtime.Reason
	if w.relay && !caps.Relay {
		why = append(why, noRelay())
	}
	if no := noPackages(caps); w.packages && no != nil {
		why = append(why, *no)
	}
	if no := NoDisk(caps); w.disk && no != nil {
		why = append(why, *no)
	}
	for _, name := range w.require {
		if got := caps.Protection(name); !got.Enforced {
			why = append(why, runtime.Reason{Code: "protection_missing", Step: name, Detail: "it cannot enforce protection " + name + " on this host", Hint: got.Hint})
		}
	}
	return c, why
}

// shows reports whether a runtime can use an image, wherever that is stored.
func (c Choice) shows(image string) bool {
	if image == runtime.HostRef {
		return c.Caps.HostImage
	}
	return c.Caps.Unpacked || c.Host.Imager() != nil
}

// tooWeak refuses a requested runtime below the bound.
func (r *Rules) tooWeak(ctx context.Context, c Choice, b bound, w requirements) error {
	able := []string{}
	for _, h := range r.Hosts {
		if _, why := r.fit(ctx, h, b, w); len(why) == 0 {
			able = append(able, h.Name())
		}
	}
	e := &belljar.Error{
		Code:    belljar.CodePolicyDenied,
		Message: fmt.Sprintf("runtime %s isolates by %s, but %s requires %s", c.Host.Name(), c.Caps.Isolation, b.by, orStronger(b.least)),
		Details: map[string]any{
			"field": "runtime", "provided": c.Host.Name(), "isolation": c.Caps.Isolation, "minimum": b.least, "rule": b.by,
			"suggested": able,
		},
		Hint: "leave runtime out to get the fastest that is strong enough",
	}
	if len(able) == 0 {
		e.Hint = "no runtime here will do: belljar doctor shows what this host can run"
	}
	if b.by == byIsolation {
		e.Code = belljar.CodeInvalidRequest
	}
	return e
}

// noneFit reports that this host has no suitable runtime, with the reason for each. The message is about the closest one: the first that is strong enough.
func (r *Rules) noneFit(ctx context.Context, b bound, w requirements) error {
	reasons := map[string]any{}
	e := &belljar.Error{
		Code:    belljar.CodeRuntimeUnavailable,
		Message: fmt.Sprintf("no runtime here isolates by %s, as %s requires", orStronger(b.least), b.by),
		Details: map[string]any{"isolation": b.least, "rule": b.by, "available": false, "suggested": []string{}, "reasons": reasons},
		Hint:    "belljar doctor shows what this host can run",
	}
	reported := false
	for _, h := range r.Hosts {
		_, why := r.fit(ctx, h, b, w)
		reasons[h.Name()] = why
		if reported || len(why) == 0 || why[0].Code == "isolation_too_weak" {
			continue
		}
		reported = true
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

// Pick returns the runtime that a request named, or the default for "", and its capabilities. It never substitutes another: it
// refuses an unknown or unavailable runtime, and names the available ones.
func (r *Rules) Pick(ctx context.Context, name string) (Choice, error) {
	h := r.Hosts[0]
	if name != "" {
		h = r.Hosts.Named(name)
	}
	if h == nil {
		return Choice{}, r.unavailable(ctx, name, nil)
	}
	caps, err := h.Capabilities(ctx)
	if err != nil {
		return Choice{}, &belljar.Error{
			Code: belljar.CodeInternal, Message: "runtime " + h.Name() + " could not be probed", Err: err,
		}
	}
	if !caps.Available {
		return Choice{}, r.unavailable(ctx, h.Name(), caps.Reasons)
	}
	return Choice{Host: h, Caps: caps}, nil
}

func (r *Rules) unavailable(ctx context.Context, name string, reasons []runtime.Reason) error {
	suggested := []string{}
	for _, h := range r.Hosts {
		if h.Name() == name {
			continue
		}
		if caps, err := h.Capabilities(ctx); err == nil && caps.Available {
			suggested = append(suggested, h.Name())
		}
	}
	quoted := strconv.Quote(name)
	e := &belljar.Error{
		Code:    belljar.CodeRuntimeUnavailable,
		Message: "Requested runtime '" + quoted[1:len(quoted)-1] + "' is not available",
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
