//go:build linux

package daemon

import (
	"io"
	"io/fs"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/test/build"
)

// benchServer is a server with default settings, apart from set.
func benchServer(b *testing.B, set map[string]string) *server {
	b.Helper()
	agent, err := build.Agent(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	h := New(Options{
		Environment: local.Environment{Env: os.Environ(), Stdout: io.Discard, Stderr: os.Stderr},
		Agent:       func(string) (fs.File, error) { return os.Open(agent) },
	})
	set["data"], set["log_level"] = b.TempDir(), "warn"
	cfg, err := config.Load(config.Sources{Set: set})
	if err != nil {
		b.Fatal(err)
	}
	data, err := openData(cfg.Data)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { data.Close() })
	d, err := openDaemon(b.Context(), h, &cfg, data, serveMode{required: requiredProtections(&cfg, service.AllProtections()), lifetime: runtime.LifetimeDetached, images: data.path})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close() })
	return d
}

// median reports the median of times in milliseconds.
func median(b *testing.B, times []time.Duration, unit string) {
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2])/float64(time.Millisecond), unit)
}

// BenchmarkPooledSession creates a session from the pool and runs its first command, without HTTP, on a server with default settings except the pool's
// size. It pauses between sessions so that the pool is never empty, and reports the median. Every second session has rules for a network; its figures
// are reported separately.
func BenchmarkPooledSession(b *testing.B) {
	d := benchServer(b, map[string]string{"pool_size": "16", "pool_max": "16", "egress_allow": "*"})
	svc := d.service.As(service.Local())
	plain := belljar.SessionSpec{SpecVersion: belljar.SpecVersion, BaseImage: "host"}
	networked := plain
	networked.NetworkPolicy, networked.Egress = belljar.NetworkAllowlist, belljar.Egress{IPs: []string{"203.0.113.7"}}
	var all, made [2][]time.Duration
	specs, turn := []belljar.SessionSpec{plain, networked}, 0
	for b.Loop() {
		turn++
		for n := range specs {
			i := (turn + n) % 2 // so that neither kind always follows the other
			spec := specs[i]
			b.StopTimer()
			for d.pools[0].Stats().Ready < 8 {
				time.Sleep(time.Millisecond)
			}
			begin := time.Now()
			s, err := svc.Sessions().Create(b.Context(), belljar.SessionRequest{SessionSpec: spec})
			if err != nil {
				b.Fatal(err)
			}
			made[i] = append(made[i], time.Since(begin))
			run, _, err := belljar.Finish(b.Context(), svc.Runs(), belljar.RunRequest{RunSpec: belljar.RunSpec{
				SpecVersion: belljar.SpecVersion, SessionID: s.ID, Command: []string{"/bin/true"},
			}}, time.Minute)
			all[i] = append(all[i], time.Since(begin))
			if err != nil || run.Phase != belljar.PhaseCompleted {
				b.Fatalf("%+v, %v", run, err)
			}
			if err := svc.Sessions().Delete(b.Context(), s.ID); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
	for _, m := range []struct {
		of   []time.Duration
		unit string
	}{
		{all[0], "ms/session-and-exec"}, {made[0], "ms/session"}, {all[1], "ms/networked-and-exec"}, {made[1], "ms/networked"},
	} {
		median(b, m.of, m.unit)
	}
}
