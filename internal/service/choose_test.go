//go:build linux

package service_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/service/admission"
)

// posing is a runtime that reports another name and isolation.
type posing struct {
	runtime.Runtime
	name   string
	change func(*runtime.Capabilities)
}

func (p posing) Name() string { return p.name }

func (p posing) Probe(ctx context.Context) (runtime.Capabilities, error) {
	c, err := p.Runtime.Probe(ctx)
	c.HostImage, c.Unpacked = true, true
	p.change(&c)
	return c, err
}

// List returns none: the first runtime lists the sandboxes, since all of them are the same.
func (p posing) List(context.Context) ([]string, error) { return nil, nil }

// several replaces the fake runtime by a namespace runtime, two with a kernel in user space of which the second is faster, and a microvm that is not available.
func several(o *service.Options) {
	inner := o.Runtimes[0]
	of := func(name string, class runtime.Isolation, start time.Duration) posing {
		return posing{inner, name, func(c *runtime.Capabilities) { c.Isolation, c.Start = class, start }}
	}
	broken := of("vm", runtime.IsolationMicroVM, time.Second)
	broken.change = func(c *runtime.Capabilities) {
		*c = runtime.Capabilities{Isolation: runtime.IsolationMicroVM, Reasons: []runtime.Reason{{Code: "no_kvm", Detail: "there is no KVM", Hint: "get one"}}}
	}
	bare := of("engine", runtime.IsolationUserKernel, 0)
	bare.change = func(c *runtime.Capabilities) { c.Isolation, c.HostImage = runtime.IsolationUserKernel, false }
	o.Runtimes = []runtime.Runtime{
		of("plain", runtime.IsolationNamespace, 5*time.Millisecond), of("slow", runtime.IsolationUserKernel, 300*time.Millisecond),
		of("quick", runtime.IsolationUserKernel, 150*time.Millisecond), broken, bare,
	}
}

func TestChoice(t *testing.T) {
	user, admin := belljar.Caller{ID: "u", Role: belljar.RoleUser}, service.Local()
	type ask struct {
		runtime, isolation string
		trust              belljar.TrustLevel
	}
	for name, c := range map[string]struct {
		ask
		caller belljar.Caller
		policy func(*service.Policy)
		want   string // the runtime, or the error's code
		why    string
	}{
		"nothing":            {caller: user, want: "plain", why: "it is the default"},
		"a runtime":          {ask: ask{runtime: "slow"}, caller: user, want: "slow", why: "the request names it"},
		"a class":            {ask: ask{isolation: "user_space_kernel"}, caller: user, want: "quick", why: "it is the fastest here with isolation user_space_kernel or stronger, as isolation requires"},
		"the weakest class":  {ask: ask{isolation: "namespace"}, caller: user, want: "plain"},
		"trusted":            {ask: ask{trust: "trusted"}, caller: user, want: "plain"},
		"untrusted":          {ask: ask{trust: "untrusted"}, caller: user, want: "quick", why: "it is the fastest here with isolation user_space_kernel or stronger, as trust_level requires"},
		"class and level":    {ask: ask{trust: "untrusted", isolation: "namespace"}, caller: user, want: "quick"},
		"both and a runtime": {ask: ask{trust: "untrusted", runtime: "slow"}, caller: user, want: "slow"},
		"too strong":         {ask: ask{isolation: "microvm"}, caller: user, want: "runtime_unavailable"},
		"broken":             {ask: ask{runtime: "vm"}, caller: user, want: "runtime_unavailable"},
		"contradiction":      {ask: ask{runtime: "plain", isolation: "user_space_kernel"}, caller: user, want: "invalid_request"},
		"weaker than level":  {ask: ask{runtime: "plain", trust: "untrusted"}, caller: user, want: "policy_denied"},
		"no such class":      {ask: ask{isolation: "none"}, caller: user, want: "invalid_request"},
		"no such level":      {ask: ask{trust: "some"}, caller: user, want: "invalid_request"},
		"default level":      {caller: user, policy: strict, want: "quick", why: "it is the fastest here with isolation user_space_kernel or stronger, as SANDBOX_DEFAULT_TRUST_LEVEL requires"},
		"claims more trust":  {ask: ask{trust: "trusted"}, caller: user, policy: strict, want: "quick"},
		"names a weaker":     {ask: ask{runtime: "plain"}, caller: user, policy: strict, want: "policy_denied"},
		"an operator may":    {ask: ask{trust: "trusted"}, caller: admin, policy: strict, want: "plain"},
		"levels of the policy": {ask: ask{trust: "standard"}, caller: user, policy: func(p *service.Policy) {
			p.TrustLevels = map[belljar.TrustLevel]runtime.Isolation{"standard": runtime.IsolationUserKernel}
		}, want: "quick"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, several, func(o *service.Options) {
				o.Policy = service.DefaultPolicy()
				if c.policy != nil {
					c.policy(&o.Policy)
				}
			})
			req := shell("true")
			req.Runtime, req.Isolation, req.TrustLevel = c.runtime, c.isolation, c.trust
			run, err := b.service.As(c.caller).Runs().Start(b.context(), req)
			got := run.Runtime
			if err != nil {
				got = string(belljar.CodeOf(err))
			}
			if got != c.want || c.why != "" && run.RuntimeReason != c.why {
				t.Errorf("%s because %q, %v", got, run.RuntimeReason, err)
			}
			if err == nil && (run.Isolation == "namespace") != (got == "plain") {
				t.Errorf("isolation %q", run.Isolation)
			}
			s := spec()
			s.Runtime, s.Isolation, s.TrustLevel = c.runtime, c.isolation, c.trust
			session, err := b.service.As(c.caller).Sessions().Create(b.context(), s)
			got = session.Runtime
			if err != nil {
				got = string(belljar.CodeOf(err))
			}
			if got != c.want || c.why != "" && session.RuntimeReason != c.why {
				t.Errorf("session: %s because %q, %v", got, session.RuntimeReason, err)
			}
		})
	}
}

func strict(p *service.Policy) { p.DefaultTrust = belljar.TrustUntrusted }

// A request for an unavailable runtime gets the reason.
func TestNoChoice(t *testing.T) {
	b := newBench(t, several)
	req := shell("true")
	req.Isolation = "microvm"
	_, err := b.Start(b.context(), req)
	var e *belljar.Error
	if !errors.As(err, &e) || e.Hint != "vm: get one" {
		t.Fatalf("%+v", err)
	}
	if !strings.HasSuffix(e.Message, ": vm: there is no KVM") {
		t.Errorf("%q", e.Message)
	}
	why, ok := e.Details["reasons"].(map[string]any)
	if !ok || len(why) != 5 {
		t.Fatalf("%+v", e.Details)
	}
	for name, code := range map[string]string{"plain": "isolation_too_weak", "quick": "isolation_too_weak", "vm": "no_kvm"} {
		if list, ok := why[name].([]runtime.Reason); !ok || len(list) != 1 || list[0].Code != code {
			t.Errorf("%s: %+v", name, why[name])
		}
	}
}

// A run in a session has the session's isolation, and is refused if that is too weak for it.
func TestChoiceInSession(t *testing.T) {
	b := newBench(t, several)
	session, err := b.service.As(service.Local()).Sessions().Create(b.context(), spec())
	if err != nil {
		t.Fatal(err)
	}
	req := shell("true")
	req.BaseImage, req.SessionID, req.TrustLevel = "", session.ID, "untrusted"
	if _, err := b.Start(b.context(), req); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Errorf("%v", err)
	}
	req.TrustLevel, req.Isolation = "standard", "namespace"
	if run, err := b.Start(b.context(), req); err != nil || run.Runtime != "plain" || run.RuntimeReason != "it is the session's" {
		t.Errorf("%+v, %v", run, err)
	}
}

// Default values do not change the policy's hash.
func TestTrustInPolicyHash(t *testing.T) {
	plain, same, other := service.DefaultPolicy(), service.DefaultPolicy(), service.DefaultPolicy()
	same.TrustLevels = admission.DefaultTrustLevels()
	other.TrustLevels = map[belljar.TrustLevel]runtime.Isolation{"standard": runtime.IsolationMicroVM}
	hash := func(p service.Policy) string {
		b := newBench(t, func(o *service.Options) { o.Policy = p })
		me, err := b.service.As(service.Local()).Node().Me(b.context())
		if err != nil {
			t.Fatal(err)
		}
		return me.PolicyHash
	}
	if hash(plain) != hash(same) || hash(plain) == hash(other) {
		t.Error("the hash does not tell what is not as usual, and that only")
	}
}

// hanging is a runtime whose probe can be blocked.
type hanging struct {
	posing
	hangs *atomic.Bool
	asked chan struct{}
	letGo chan struct{}
}

func (h hanging) Probe(ctx context.Context) (runtime.Capabilities, error) {
	if h.hangs.Load() {
		select {
		case h.asked <- struct{}{}:
		case <-ctx.Done():
			return runtime.Capabilities{}, ctx.Err()
		}
		select {
		case <-h.letGo:
		case <-ctx.Done():
			return runtime.Capabilities{}, ctx.Err()
		}
	}
	return h.posing.Probe(ctx)
}

// No caller waits for a slow probe of a runtime that would be slower anyway.
func TestChoicePastOneThatHangs(t *testing.T) {
	h := hanging{hangs: &atomic.Bool{}, asked: make(chan struct{}), letGo: make(chan struct{})}
	b := newBench(t, several, func(o *service.Options) {
		h.posing = o.Runtimes[1].(posing) // the slow one
		o.Runtimes[1] = h
	})
	node := b.service.As(service.Local()).Node()
	if _, err := node.Runtimes(b.context()); err != nil {
		t.Fatal(err)
	}
	h.hangs.Store(true)
	ctx, failed := b.context(), make(chan error, 1)
	go func() {
		_, err := node.Runtimes(ctx)
		failed <- err
	}()
	<-h.asked
	req := shell("true")
	req.TrustLevel = belljar.TrustUntrusted
	if run, err := b.Start(b.context(), req); err != nil || run.Runtime != "quick" {
		t.Errorf("%+v, %v", run, err)
	}
	h.hangs.Store(false)
	close(h.letGo)
	if err := <-failed; err != nil {
		t.Error(err)
	}
}
