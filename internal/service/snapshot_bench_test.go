//go:build linux

package service_test

import (
	"testing"

	"github.com/belljar/belljar"
	logbook "github.com/belljar/belljar/internal/logbook/memory"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store/memory"
)

// BenchmarkSnapshot saves, restores and copies a workspace of 10 MB in 500 files. The time for a session without files is the baseline.
func BenchmarkSnapshot(b *testing.B) {
	rt := fake.New(fake.Options{Dir: b.TempDir()})
	defer rt.Close()
	svc, err := service.New(service.Options{
		Runtimes: []runtime.Runtime{rt}, Store: memory.New(), Logs: logbook.New(), Blobs: newBlobs(), Require: []string{}, TempDir: b.TempDir(),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer svc.Close()
	ctx := b.Context()
	mine := svc.As(service.Local())
	spec := belljar.SessionSpec{SpecVersion: "1.0", BaseImage: "host", LifetimeSec: 3600}
	open := func(b *testing.B, spec belljar.SessionSpec) belljar.Session {
		x, err := mine.Sessions().Create(ctx, belljar.SessionRequest{SessionSpec: spec})
		if err != nil {
			b.Fatal(err)
		}
		return x
	}
	end := func(b *testing.B, id string) {
		b.StopTimer()
		if err := mine.Sessions().Delete(ctx, id); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	x := open(b, spec)
	run, err := mine.Runs().Start(ctx, belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: "1.0", SessionID: x.ID, Command: []string{"sh", "-c", "for i in $(seq 500); do head -c 21000 /dev/urandom >f$i; done"},
	}})
	if err == nil {
		for _, err = range mine.Runs().Frames(ctx, run.ID, 1) {
			if err != nil {
				break
			}
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	var saved belljar.Snapshot
	b.Run("save", func(b *testing.B) {
		for b.Loop() {
			if saved, err = mine.Snapshots().Make(ctx, x.ID, belljar.SnapshotSpec{}); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := mine.Snapshots().Remove(ctx, saved.ID); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	if saved, err = mine.Snapshots().Make(ctx, x.ID, belljar.SnapshotSpec{}); err != nil {
		b.Fatal(err)
	}
	b.Run("create", func(b *testing.B) {
		for b.Loop() {
			end(b, open(b, spec).ID)
		}
	})
	b.Run("restore", func(b *testing.B) {
		spec := spec
		spec.Snapshot = saved.ID
		for b.Loop() {
			end(b, open(b, spec).ID)
		}
	})
	b.Run("fork16", func(b *testing.B) {
		for b.Loop() {
			made, err := mine.Snapshots().Fork(ctx, x.ID, belljar.ForkSpec{Count: 16})
			if err != nil {
				b.Fatal(err)
			}
			for _, s := range made.Sessions {
				end(b, s.ID)
			}
		}
	})
}
