//go:build linux

package service_test

import (
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

// A session that was made under an older policy cannot bypass the new one.
func TestSessionOfAnOlderPolicy(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	session := p.open()
	p.kill()
	for name, change := range map[string]func(*service.Policy){
		"trust": func(p *service.Policy) { p.DefaultTrust = belljar.TrustUntrusted }, "execution": func(p *service.Policy) { p.EnableExecution = false },
	} {
		next := w.boot(func(o *service.Options) {
			o.Policy = service.DefaultPolicy()
			change(&o.Policy)
		})
		if _, err := next.Start(next.context(), in(session, "true")); belljar.CodeOf(err) != belljar.CodePolicyDenied || belljar.HintOf(err) == "" {
			t.Errorf("%s, a run: %v", name, err)
		}
		terminals := next.service.As(service.Local()).Terminals()
		if _, err := terminals.Open(next.context(), session.ID, belljar.TerminalSpec{}); belljar.CodeOf(err) != belljar.CodePolicyDenied {
			t.Errorf("%s, a terminal: %v", name, err)
		}
		contexts := next.service.As(service.Local()).Contexts()
		if _, err := contexts.Create(next.context(), session.ID, belljar.ContextSpec{Language: "bash"}); belljar.CodeOf(err) != belljar.CodePolicyDenied {
			t.Errorf("%s, a context: %v", name, err)
		}
		next.kill()
	}
	last := w.boot()
	if r := last.follow(last.start(in(session, "true")).ID); r.Phase != belljar.PhaseCompleted {
		t.Errorf("%+v", r.Run)
	}
	last.end(session)
}
