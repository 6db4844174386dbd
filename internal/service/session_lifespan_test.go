//go:build linux

package service_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

// After any sequence of operations, a session ends exactly when its report announced it, and its terms give the same time.
func TestLifespan(t *testing.T) {
	rapid.Check(t, func(t2 *rapid.T) {
		clock := newHourglass()
		b := newBench(t, func(o *service.Options) { o.Clock = clock })
		defer b.service.Close()
		ttl := time.Duration(rapid.IntRange(1, 50).Draw(t2, "ttl")) * time.Second
		idle := time.Duration(rapid.IntRange(0, 60).Draw(t2, "idle")) * time.Second
		life := time.Duration(rapid.IntRange(1, 200).Draw(t2, "lifetime")) * time.Second
		s, _ := b.opened(scoped("agent:a", func(r *belljar.SessionRequest) {
			r.TTLSec, r.IdleTimeoutSec, r.LifetimeSec = ttl.Seconds(), idle.Seconds(), life.Seconds()
		}))
		used, ends, retained := clock.Now(), clock.Now().Add(life), false
		model := func() time.Time {
			at := ends
			if retained {
				return at
			}
			for _, bound := range []time.Duration{ttl, idle} {
				if bound > 0 && used.Add(bound).Before(at) {
					at = used.Add(bound)
				}
			}
			return at
		}
		check := func() {
			got, err := b.mine().Get(b.context(), s.ID)
			if err != nil {
				t2.Fatal(err)
			}
			if over := !clock.Now().Before(model()); over != got.State.Ended() {
				t2.Fatalf("at %v it is %s (%s); it ends at %v", clock.Now(), got.State, got.Message, model())
			}
			if !got.State.Ended() && !got.ExpiresAt.Equal(model()) {
				t2.Fatalf("it says %v, which is %v", got.ExpiresAt, model())
			}
		}
		check()
		for range rapid.IntRange(1, 12).Draw(t2, "steps") {
			if !clock.Now().Before(model()) {
				break
			}
			switch rapid.IntRange(0, 5).Draw(t2, "step") {
			case 0: // a file
				if _, err := b.mine().Upload(b.context(), s.ID, files(map[string]string{"x": ""})); err != nil {
					t2.Fatal(err)
				}
				used = clock.Now()
			case 1: // reopens its scope
				if _, created := b.opened(scoped("agent:a")); created != retained {
					t2.Fatalf("created %v, though it is retained: %v", created, retained)
				}
				if !retained {
					used = clock.Now()
				} else if _, err := b.mine().CloseAll(b.context(), belljar.CloseRequest{KeyPrefix: "agent:a:"}); err != nil {
					t2.Fatal(err)
				}
			case 2:
				d := time.Duration(rapid.IntRange(1, 100).Draw(t2, "retain")) * time.Second
				if _, err := b.mine().CloseAll(b.context(), belljar.CloseRequest{KeyPrefix: "agent:a:", RetainSec: d.Seconds()}); err != nil {
					t2.Fatal(err)
				}
				if at := clock.Now().Add(d); !retained && at.Before(ends) {
					ends = at
				}
				retained = true
			case 3:
				b.service.Reap(b.context())
			default:
				clock.pass(time.Duration(rapid.IntRange(1, 40).Draw(t2, "pass")) * time.Second)
			}
			check()
		}
	})
}
