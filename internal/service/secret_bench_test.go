//go:build linux

package service_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/belljar/belljar"
	logdir "github.com/belljar/belljar/internal/logbook/dir"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store/memory"
)

// BenchmarkHiddenSecret compares runs whose logs redact a secret with runs without secrets, from the program to the log on disk.
// The share is the additional time.
func BenchmarkHiddenSecret(b *testing.B) {
	rt := fake.New(fake.Options{Dir: b.TempDir()})
	defer rt.Close()
	logs, err := logdir.Open(logdir.Options{Path: filepath.Join(b.TempDir(), "logs")})
	if err != nil {
		b.Fatal(err)
	}
	defer logs.Close()
	const printed = 128 << 20
	limits := belljar.DefaultLimits()
	limits.LogBytes = printed
	s, err := service.New(service.Options{
		Runtimes: []runtime.Runtime{rt}, Store: memory.New(), Logs: logs, Blobs: newBlobs(), Require: []string{}, Limits: limits, MaxLimits: limits,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	runs := s.As(service.Local()).Runs()
	run := func(secrets map[string]belljar.Secret) time.Duration {
		req := shell("yes '2026-03-01T12:00:00Z INFO  request id=7f3a method=GET path=/api/v1/items status=200 took=13ms' | head -c 128M")
		req.Secrets = secrets
		begun := time.Now()
		started, err := runs.Start(b.Context(), req)
		if err != nil {
			b.Fatal(err)
		}
		for f, err := range runs.Frames(b.Context(), started.ID, belljar.Tail) {
			if err != nil || f.Event == belljar.EventEnd && f.Data["phase"] != "completed" {
				b.Fatalf("%+v, %v", f, err)
			}
		}
		return time.Since(begun)
	}
	given := map[string]belljar.Secret{"TOKEN": {Value: "ghp_0123456789abcdefghijklmnopqrstuvwxyz"}, "PASSWORD": {Value: "correct horse battery"}}
	b.SetBytes(2 * printed)
	with, without := time.Duration(1<<62), time.Duration(1<<62)
	for b.Loop() {
		with, without = min(with, run(given)), min(without, run(nil))
	}
	b.ReportMetric(100*float64(with-without)/float64(without), "share-%")
	b.ReportMetric(printed/without.Seconds()/1e6, "log-MB/s")
}
