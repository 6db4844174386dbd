//go:build linux && !race

package service_test

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	logdir "github.com/belljar/belljar/internal/logbook/dir"
	logbook "github.com/belljar/belljar/internal/logbook/memory"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store/memory"
	"github.com/belljar/belljar/internal/store/sqlite"
)

// BenchmarkRun measures runs of eight callers from request to end. cpu-µs/op is the CPU time of this process: without
// sandboxes that is the service's own share, or with the disk the cost of storing a run. With sandboxes it includes the
// agents of the fake runtime.
func BenchmarkRun(b *testing.B) {
	for _, mode := range []struct {
		name            string
		sandboxes, disk bool
	}{{"service", false, false}, {"service and disk", false, true}, {"sandboxes", true, false}, {"all", true, true}} {
		b.Run(mode.name, func(b *testing.B) { benchmarkRun(b, mode.sandboxes, mode.disk) })
	}
}

func benchmarkRun(b *testing.B, sandboxes, disk bool) {
	ctx := context.Background()
	faked := fake.New(fake.Options{Dir: b.TempDir()})
	defer faked.Close()
	var rt runtime.Runtime = faked
	if !sandboxes {
		rt = broken{faked}
	}
	o := service.Options{
		Runtimes: []runtime.Runtime{rt}, Store: memory.New(), Logs: logbook.New(), Blobs: newBlobs(), Require: []string{},
	}
	if disk {
		dir := b.TempDir()
		records, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "db")})
		if err != nil {
			b.Fatal(err)
		}
		defer records.Close()
		logs, err := logdir.Open(logdir.Options{Path: filepath.Join(dir, "logs")})
		if err != nil {
			b.Fatal(err)
		}
		defer logs.Close()
		o.Store, o.Logs = records, logs
	}
	s, err := service.New(o)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	runs := s.As(service.Local()).Runs()
	begin := cpu()
	b.SetParallelism(4) // on two processors
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			run, err := runs.Start(ctx, command("/bin/true"))
			if err != nil {
				b.Error(err)
				return
			}
			for _, err := range runs.Frames(ctx, run.ID, 1) {
				if err != nil {
					b.Error(err)
				}
			}
		}
	})
	b.ReportMetric(float64((cpu()-begin).Microseconds())/float64(b.N), "cpu-µs/op")
}

// cpu returns the CPU time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
