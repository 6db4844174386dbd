//go:build linux

package gvisor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

// timer reports the median of its measurements.
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

// execTrue runs true.
func execTrue(box runtime.Sandbox) error {
	_, err := execute(box, "/usr/bin/true")
	return err
}

// execute runs a program and returns its output.
func execute(box runtime.Sandbox, argv ...string) (string, error) {
	client := agent.New(box.Dial)
	p, err := client.Exec(context.Background(), wire.Exec{ID: belljar.NewID(), Argv: argv, UID: 1000, GID: 1000, KillAll: true})
	if err != nil {
		return "", err
	}
	var out strings.Builder
	exit, err := p.Output(context.Background(), func(_ int64, _ wire.Stream, b []byte) error {
		out.Write(b)
		return nil
	})
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("%q: %+v: %s", argv, exit, out.String())
	}
	return out.String(), errors.Join(err, p.Forget())
}

// spawns measures, inside the sandbox, how long a program takes to start another and to see it end. This is the lower bound
// for every program that starts others there. It prints the median in milliseconds.
const spawns = `
import os, sys, time
took = []
for _ in range(100):
    began = time.perf_counter()
    os.waitpid(os.posix_spawn(sys.argv[1], sys.argv[1:], {}), 0)
    took.append(time.perf_counter() - began)
print(sorted(took)[50] * 1000)
`

// BenchmarkCold makes a sandbox, runs a command and removes the sandbox.
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

// BenchmarkClaim claims a sandbox that is ready.
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

// BenchmarkExec runs commands in an existing sandbox: a dynamically linked program, and a static one, which needs far less
// work in the sentry. The same run measures the start of a program inside, without an agent.
func BenchmarkExec(b *testing.B) {
	box, err := open(b, b.TempDir()).Create(context.Background(), spec())
	if err != nil {
		b.Fatal(err)
	}
	kinds := []struct {
		name string
		argv []string
		exec timer
	}{{name: "linked", argv: []string{"/usr/bin/true"}}, {name: "static", argv: []string{"/usr/bin/busybox", "true"}}}
	for b.Loop() {
		for i := range kinds {
			k := &kinds[i]
			err := k.exec.measure(func() error {
				_, err := execute(box, k.argv...)
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, k := range kinds {
		k.exec.report(b, k.name)
		out, err := execute(box, append([]string{"/usr/bin/python3", "-c", spawns}, k.argv...)...)
		if err != nil {
			b.Fatal(err)
		}
		bare, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(bare, k.name+"-inside-p50-ms")
	}
	if u, err := box.Usage(context.Background()); err == nil && u.Memory != nil {
		b.ReportMetric(float64(*u.Memory)/(1<<20), "idle-MiB")
	}
}

// BenchmarkPause pauses a sandbox and resumes it.
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
