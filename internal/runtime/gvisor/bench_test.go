//go:build linux

package gvisor_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

// timer reports the middle of what it measured.
type timer struct{ took []time.Duration }

func (m *timer) measure(do func() error) error {
	began := time.Now()
	err := do()
	m.took = append(m.took, time.Since(began))
	return err
}

func (m *timer) report(b *testing.B, what string) {
	slices.Sort(m.took)
	b.ReportMetric(float64(m.took[len(m.took)/2])/float64(time.Millisecond), what+"-p50-ms")
}

// exec runs true.
func execTrue(box runtime.Sandbox) error {
	p, err := agent.New(box.Dial).Exec(context.Background(), wire.Exec{ID: belljar.NewID(), Argv: []string{"/usr/bin/true"}, UID: 1000, GID: 1000, KillAll: true})
	if err != nil {
		return err
	}
	defer p.Close()
	_, err = p.Output(context.Background(), func(int64, wire.Stream, []byte) error { return nil })
	return err
}

// BenchmarkCold makes a sandbox, runs a command and takes it down.
func BenchmarkCold(b *testing.B) {
	r := open(b, b.TempDir())
	var create, first, destroy timer
	for b.Loop() {
		var box runtime.Sandbox
		err := create.measure(func() (err error) {
			box, err = r.Create(context.Background(), spec())
			return err
		})
		if err == nil {
			err = first.measure(func() error { return execTrue(box) })
		}
		if err == nil {
			err = destroy.measure(func() error { return box.Destroy(context.Background()) })
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	create.report(b, "create")
	first.report(b, "first-exec")
	destroy.report(b, "destroy")
}

// BenchmarkClaim takes a sandbox that is ready.
func BenchmarkClaim(b *testing.B) {
	r := open(b, b.TempDir())
	var claim, first timer
	for b.Loop() {
		blank := r.Blank(spec())
		blank.ID = belljar.NewID()
		if _, err := r.Create(context.Background(), blank); err != nil {
			b.Fatal(err)
		}
		var box runtime.Sandbox
		err := claim.measure(func() (err error) {
			box, err = r.Claim(context.Background(), blank.ID, spec())
			return err
		})
		if err == nil {
			err = first.measure(func() error { return execTrue(box) })
		}
		if err == nil {
			err = box.Destroy(context.Background())
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	claim.report(b, "claim")
	first.report(b, "first-exec")
}

// BenchmarkExec runs a command in a sandbox that is there.
func BenchmarkExec(b *testing.B) {
	box, err := open(b, b.TempDir()).Create(context.Background(), spec())
	if err != nil {
		b.Fatal(err)
	}
	var exec timer
	for b.Loop() {
		if err := exec.measure(func() error { return execTrue(box) }); err != nil {
			b.Fatal(err)
		}
	}
	exec.report(b, "exec")
	if u, err := box.Usage(context.Background()); err == nil && u.Memory != nil {
		b.ReportMetric(float64(*u.Memory)/(1<<20), "idle-MiB")
	}
}

// BenchmarkPause stops a sandbox and sets it going.
func BenchmarkPause(b *testing.B) {
	box, err := open(b, b.TempDir()).Create(context.Background(), spec())
	if err != nil {
		b.Fatal(err)
	}
	var pause, resume timer
	for b.Loop() {
		err := pause.measure(func() error { return box.(runtime.Pauser).Pause(context.Background()) })
		if err == nil {
			err = resume.measure(func() error { return box.(runtime.Pauser).Resume(context.Background()) })
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	pause.report(b, "pause")
	resume.report(b, "resume")
}
