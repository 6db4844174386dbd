package docker_test

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/belljar/belljar"
	host "github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/docker"
	"github.com/belljar/belljar/test/dockerd"
)

// timed measures f b.N times and reports the median.
func timed(b *testing.B, f func()) {
	b.Helper()
	took := make([]time.Duration, 0, b.N)
	for b.Loop() {
		at := time.Now()
		f()
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
}

// BenchmarkDocker measures the figures that docs/specification.md promises for this runtime, and those of Docker's own
// commands.
func BenchmarkDocker(b *testing.B) {
	engine := dockerd.Start(b)
	image := engine.Busybox(b)
	r := open(b, docker.Options{Host: engine.Host(), Installation: name()})
	ctx := b.Context()
	command := func(args ...string) {
		if out, err := exec.Command("docker", append([]string{"--host", engine.Host()}, args...)...).CombinedOutput(); err != nil {
			b.Fatalf("docker %v: %v\n%s", args, err, out)
		}
	}
	create := func(s runtime.Spec) (runtime.Sandbox, int, int) {
		box, err := r.Create(ctx, s)
		if err != nil {
			b.Fatal(err)
		}
		info, err := host.New(box.Dial).Ping(ctx)
		if err != nil {
			b.Fatal(err)
		}
		return box, info.UID, info.GID
	}
	exec := func(box runtime.Sandbox, uid, gid int) {
		p, err := host.New(box.Dial).Exec(ctx, wire.Exec{ID: belljar.NewID(), Argv: []string{"/bin/true"}, UID: uid, GID: gid, KillAll: true})
		if err != nil {
			b.Fatal(err)
		}
		defer p.Close()
		if exit, err := p.Output(ctx, func(int64, wire.Stream, []byte) error { return nil }); err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
	}
	b.Run("cold", func(b *testing.B) {
		timed(b, func() {
			box, uid, gid := create(spec(image))
			exec(box, uid, gid)
			if err := box.Destroy(ctx); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("docker run", func(b *testing.B) {
		timed(b, func() { command("run", "--rm", "--network", "none", image, "true") })
	})
	b.Run("exec", func(b *testing.B) {
		box, uid, gid := create(spec(image))
		timed(b, func() { exec(box, uid, gid) })
	})
	b.Run("docker exec", func(b *testing.B) {
		command("run", "-d", "--name", "peer", "--network", "none", image, "sleep", "1000")
		timed(b, func() { command("exec", "peer", "true") })
	})
	b.Run("claimed", func(b *testing.B) {
		var took []time.Duration
		for b.Loop() {
			b.StopTimer()
			s := spec(image)
			blank := r.Blank(s)
			blank.ID, blank.Lease = belljar.NewID(), time.Hour
			_, uid, gid := create(blank)
			at := time.Now()
			b.StartTimer()
			box, err := r.Claim(ctx, blank.ID, s)
			if err != nil {
				b.Fatal(err)
			}
			exec(box, uid, gid)
			took = append(took, time.Since(at))
			b.StopTimer()
			if err := box.Destroy(ctx); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	})
}
