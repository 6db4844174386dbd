//go:build linux

package service_test

import (
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

// A session that was made under an older policy is no way around the new one.
func TestSessionOfAnOlderPolicy(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	session := p.open()
	p.kill()
	next := w.boot(func(o *service.Options) {
		o.Policy = service.DefaultPolicy()
		o.Policy.DefaultTrust = belljar.TrustUntrusted
	})
	if _, err := next.Start(next.context(), in(session, "true")); belljar.CodeOf(err) != belljar.CodePolicyDenied || belljar.HintOf(err) == "" {
		t.Errorf("a run: %v", err)
	}
	terminals := next.service.As(service.Local()).Terminals()
	if _, err := terminals.Open(next.context(), session.ID, belljar.TerminalSpec{}); belljar.CodeOf(err) != belljar.CodePolicyDenied {
		t.Errorf("a terminal: %v", err)
	}
	next.kill()
	last := w.boot()
	if r := last.follow(last.start(in(session, "true")).ID); r.Phase != belljar.PhaseCompleted {
		t.Errorf("%+v", r.Run)
	}
	last.end(session)
}
