//go:build linux

package service_test

import (
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service"
)

// The use of a stored secret is recorded once for a request that is accepted, and never for one that is refused.
func TestSecretUsedIsOfAcceptedRequests(t *testing.T) {
	var events diary
	b := newBench(t, func(o *service.Options) { o.Events, o.MaxSessions = &events, 1 })
	if _, err := b.service.As(service.Local()).Secrets().Set(b.context(), "TOKEN", belljar.SecretSpec{Value: password, Shared: true}); err != nil {
		t.Fatal(err)
	}
	from := map[string]belljar.Secret{"T": {From: "TOKEN"}}
	session := spec()
	session.Secrets = from
	lacking := session
	lacking.Snapshot = belljar.NewID()
	run := keyed("once", "true")
	run.Secrets = from
	lackingRun := run
	lackingRun.IdempotencyKey, lackingRun.Snapshot = "", lacking.Snapshot
	used := func(after string, want int) {
		t.Helper()
		if got := events.named(event.SecretUsed); len(got) != want {
			t.Errorf("%s: %d uses, want %d", after, len(got), want)
		}
	}
	if _, err := b.mine().Create(b.context(), lacking); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("%v", err)
	}
	if _, err := b.Start(b.context(), lackingRun); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("%v", err)
	}
	used("refused", 0)
	s, err := b.mine().Create(b.context(), session)
	if err != nil {
		t.Fatal(err)
	}
	used("a session", 1)
	if _, err := b.mine().Create(b.context(), session); belljar.CodeOf(err) != belljar.CodeQuotaExceeded {
		t.Errorf("%v", err)
	}
	used("one session too many", 1)
	for range 2 {
		made, err := b.Start(b.context(), run)
		if err != nil {
			t.Fatal(err)
		}
		b.follow(made.ID)
	}
	used("a run, and the same again", 2)
	b.end(s)
}
