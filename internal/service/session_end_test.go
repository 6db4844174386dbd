//go:build linux

package service_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store/memory"
)

// A session expires after its TTL without use, and not while it is in use.
func TestSessionExpires(t *testing.T) {
	clock := newHourglass()
	b := newBench(t, func(o *service.Options) {
		o.Clock, o.SessionTTL, o.SessionLifetime = clock, 10*time.Minute, 1e6*time.Hour
	})
	s := b.open()
	if !s.ExpiresAt.Equal(clock.Now().Add(10 * time.Minute)) {
		t.Errorf("expires at %v", s.ExpiresAt)
	}
	clock.pass(9 * time.Minute)
	r := b.run(in(s, "true")) // restarts its TTL
	r.want(t, belljar.PhaseCompleted, 0, "")
	clock.pass(9 * time.Minute)
	run := b.start(in(s, "echo up; while [ ! -e stop ]; do sleep 0.01; done"))
	b.waitFor(run.ID, "up")
	clock.pass(time.Hour)
	if got := b.state(s.ID, belljar.SessionActive); got.State.Ended() {
		t.Errorf("%+v", got)
	}
	if _, err := b.mine().Upload(b.context(), s.ID, files(map[string]string{"stop": ""})); err != nil {
		t.Fatal(err)
	}
	b.follow(run.ID).want(t, belljar.PhaseCompleted, 0, "")
	clock.pass(10*time.Minute - time.Second)
	b.state(s.ID, belljar.SessionActive)
	for got := b.state(s.ID, belljar.SessionActive); !got.State.Ended(); got, _ = b.mine().Get(b.context(), s.ID) {
		clock.pass(10 * time.Minute)
		time.Sleep(time.Millisecond) // the response is sent before the run releases the session
	}
	if got := b.state(s.ID, belljar.SessionExpired); !strings.Contains(got.Message, "10m") {
		t.Errorf("%q", got.Message)
	}
	b.gone(s.ID)
}

// gone waits until a session's sandbox is removed.
func (b *bench) gone(id string) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); len(b.sandboxes()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("sandbox of session %s is still there", id)
		}
	}
}

// A session's own TTL applies, on the machine's clock.
func TestSessionTTL(t *testing.T) {
	b := newBench(t)
	s := b.open(func(r *belljar.SessionRequest) { r.TTLSec = 0.05 })
	b.state(s.ID, belljar.SessionExpired)
	b.gone(s.ID)
}

// Runs in a session are independent: a cancelled or timed-out run ends all of its own processes, and no others.
func TestRunsInSession(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.open()
	background := b.run(in(s, "(while [ ! -e stop ]; do sleep 0.2; done; echo late; touch survived) & echo $!"))
	background.want(t, belljar.PhaseCompleted, 0, "")
	forever := "(trap '' TERM; exec sleep 1000) & echo $! > %s; echo up; wait"
	canceled := b.start(in(s, fmt.Sprintf(forever, "canceled")))
	other := b.start(in(s, "echo up; while [ ! -e stop ]; do sleep 0.2; done; echo fine"))
	slow := in(s, fmt.Sprintf(forever, "late"))
	slow.TimeoutSec = late
	timedOut := b.start(slow)
	for _, id := range []string{canceled.ID, other.ID, timedOut.ID} {
		b.waitFor(id, "up")
	}
	if err := b.Cancel(b.context(), canceled.ID); err != nil {
		t.Fatal(err)
	}
	b.follow(canceled.ID).want(t, belljar.PhaseKilled, exitOf(b.follow(canceled.ID)), belljar.ReasonCanceledByUser)
	b.follow(timedOut.ID).want(t, belljar.PhaseTimedOut, exitOf(b.follow(timedOut.ID)), belljar.ReasonExecutionTimeout)
	// Their processes have ended, that of the first run has not.
	r := b.run(in(s, `for f in canceled late; do kill -0 $(cat $f) 2>/dev/null && echo $f lives; done; kill -0 `+
		strings.TrimSpace(background.stdout)+` && echo the first lives`))
	if r.stdout != "the first lives\n" {
		t.Errorf("stdout %q", r.stdout)
	}
	b.run(in(s, "touch stop")).want(t, belljar.PhaseCompleted, 0, "")
	if r := b.follow(other.ID); r.stdout != "up\nfine\n" || r.Phase != belljar.PhaseCompleted {
		t.Errorf("the other run: %q, %s", r.stdout, r.Phase)
	}
	// Later output of a surviving process is discarded, and does not kill it.
	b.run(in(s, "while [ ! -e survived ]; do sleep 0.01; done")).want(t, belljar.PhaseCompleted, 0, "")
	if again := b.follow(background.ID); again.stdout != background.stdout {
		t.Errorf("the log has grown: %q", again.stdout)
	}
}

func exitOf(r result) int {
	if r.ExitCode == nil {
		return -1
	}
	return *r.ExitCode
}

// The figures of a run in a session are its own.
func TestUsageInSession(t *testing.T) {
	b := newBench(t)
	s := b.open()
	busy := b.run(in(s, "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"))
	idle := b.run(in(s, "true"))
	cpu := func(r result) float64 {
		if r.ResourceUsage.CPUTimeSec == nil {
			t.Fatalf("no figure: %+v", r.ResourceUsage)
		}
		return *r.ResourceUsage.CPUTimeSec
	}
	if cpu(idle) >= cpu(busy) {
		t.Errorf("idle %v, busy %v", cpu(idle), cpu(busy))
	}
}

// Delete cancels the running runs, and returns when everything is removed.
func TestSessionDeletedUnderRuns(t *testing.T) {
	b := newBench(t)
	s := b.open(func(r *belljar.SessionRequest) { r.MaxConcurrent = 1 })
	running := b.start(in(s, "echo up; sleep 1000"))
	b.waitFor(running.ID, "up")
	queued := b.start(in(s, "echo never"))
	if err := b.mine().Delete(b.context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if left := b.sandboxes(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for _, id := range []string{running.ID, queued.ID} {
		if r := b.follow(id); r.Phase != belljar.PhaseKilled || r.ReasonCode != belljar.ReasonCanceledByUser || strings.Contains(r.stdout, "never") {
			t.Errorf("%s, %s, %q", r.Phase, r.ReasonCode, r.stdout)
		}
	}
}

// A sandbox that dies ends its session and its runs.
func TestSessionCrashes(t *testing.T) {
	b := newBench(t)
	s := b.open()
	run := b.start(in(s, "echo up; sleep 1000"))
	b.waitFor(run.ID, "up")
	if err := b.fake.Remove(b.context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if got := b.state(s.ID, belljar.SessionCrashed); got.Message == "" {
		t.Error("no reason")
	}
	if r := b.follow(run.ID); r.Phase != belljar.PhaseFailed || r.ReasonCode != belljar.ReasonSandboxDied {
		t.Errorf("%s, %s, %s", r.Phase, r.ReasonCode, r.Message)
	}
	if _, err := b.Start(b.context(), in(s, "true")); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("%v", err)
	}
}

func TestCloseEndsSessions(t *testing.T) {
	kept := memory.New()
	b := newBench(t, func(o *service.Options) { o.Store = kept })
	s := b.open()
	run := b.start(in(s, "echo up; sleep 1000"))
	b.waitFor(run.ID, "up")
	if err := b.service.Close(); err != nil {
		t.Fatal(err)
	}
	row, err := kept.Sessions().Get(t.Context(), s.ID)
	if err != nil || row.State != belljar.SessionLost || row.EndedAt == nil || len(b.sandboxes()) != 0 {
		t.Errorf("%+v, %v, %v", row, err, b.sandboxes())
	}
	if _, err := b.mine().Create(b.context(), spec()); belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable {
		t.Errorf("after the end: %v", err)
	}
}

// Sessions are made and deleted while they are in concurrent use. In the end nothing is left over (newBench checks that).
func TestSessionsAtRandom(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.MaxSessions, o.QueueLength = -1, 1000 })
	var wait sync.WaitGroup
	for user := range 8 {
		wait.Go(func() {
			chance := rand.New(rand.NewPCG(1, uint64(user)))
			for range 5 {
				s := b.open()
				var all sync.WaitGroup
				for range 4 {
					kind := chance.IntN(3)
					all.Go(func() {
						var err error
						switch kind {
						case 0:
							var run belljar.Run
							if run, err = b.Start(b.context(), in(s, "echo x > f")); err == nil {
								b.follow(run.ID)
							}
						case 1:
							_, err = b.mine().Upload(b.context(), s.ID, files(map[string]string{"f": "y", "g/h": "z"}))
						case 2:
							_, err = b.mine().Get(b.context(), s.ID)
						}
						if err != nil && belljar.CodeOf(err) != belljar.CodeConflict {
							t.Error(err)
						}
					})
				}
				if chance.IntN(2) == 0 {
					all.Wait()
				}
				if chance.IntN(4) == 0 {
					if err := b.fake.Remove(b.context(), s.ID); err != nil {
						t.Error(err)
					}
				}
				if err := b.mine().Delete(b.context(), s.ID); err != nil {
					t.Error(err)
				}
				all.Wait()
				if got, err := b.mine().Get(b.context(), s.ID); err != nil || !got.State.Ended() {
					t.Errorf("%+v, %v", got, err)
				}
			}
		})
	}
	wait.Wait()
}
