//go:build linux

package service_test

import (
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

// After a restart, too, an operator cannot approve a run beyond its user's quota of memory and cores.
func TestApprovalAfterRestartKeepsQuota(t *testing.T) {
	t.Parallel()
	var o service.Options
	b := newBench(t, asking("timeout_sec>600"), recorded(&records{}), func(o *service.Options) {
		o.Lifetime, o.Quota.CPU = "detached", 1.5
	}, parts(&o)).seen(ann)
	run := b.start(big("echo first"))
	b.pending(run.ID)
	if err := b.service.Close(); err != nil {
		t.Fatal(err)
	}
	next := newBench(t, func(n *service.Options) { *n = o }).seen(ann)
	next.recover()
	next.pending(run.ID)
	busy, end := next.busy()
	if _, err := next.decide(run.ID, belljar.DecisionApprove, ""); belljar.CodeOf(err) != belljar.CodeQuotaExceeded {
		t.Errorf("approved beyond its user's quota of cores: %v", err)
	}
	end()
	next.follow(busy.ID)
	next.settled(ann)
	next.approve(run.ID)
	next.follow(run.ID).want(t, belljar.PhaseCompleted, 0, "")
}
