//go:build linux

package service_test

import (
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

// A run that waits for an approval keeps its session from its idle timeout, but not from the end of its lifetime.
func TestApprovalKeepsTheSession(t *testing.T) {
	t.Parallel()
	clock := newHourglass()
	b := newBench(t, asking("timeout_sec>600"), func(o *service.Options) { o.Clock = clock }).seen(ann)
	sessions := b.service.As(ann).Sessions()
	open := func() belljar.Session {
		x, err := sessions.Create(b.context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
			SpecVersion: "1.1", BaseImage: "host", IdleTimeoutSec: 60, TTLSec: 120, LifetimeSec: 1200,
		}})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	state := func(x belljar.Session, want belljar.SessionState, message string) {
		t.Helper()
		if got, err := sessions.Get(b.context(), x.ID); err != nil || got.State != want || !strings.HasPrefix(got.Message, message) {
			t.Fatalf("%s, %q, %v", got.State, got.Message, err)
		}
	}
	ask := func(x belljar.Session) belljar.Run {
		req := big("echo well")
		req.SessionID, req.BaseImage = x.ID, ""
		return b.start(req)
	}
	x := open()
	run := ask(x)
	for range 10 {
		clock.pass(time.Minute)
		state(x, belljar.SessionActive, "")
	}
	b.pending(run.ID)
	b.approve(run.ID)
	if r := b.follow(run.ID); r.Phase != belljar.PhaseCompleted {
		t.Errorf("%s, %q", r.Phase, r.Message)
	}

	y := open()
	run = ask(y)
	clock.pass(10 * time.Minute)
	state(y, belljar.SessionActive, "")
	clock.pass(10 * time.Minute)
	state(y, belljar.SessionExpired, "its lifetime")
	if r := b.follow(run.ID); r.ReasonCode != belljar.ReasonSessionExpired {
		t.Errorf("%s, %q", r.ReasonCode, r.Message)
	}
}
