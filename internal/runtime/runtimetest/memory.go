package runtimetest

import (
	"errors"
	"testing"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

// take returns a command that allocates that many MiB in one piece.
func take(mb string) string { return "dd if=/dev/zero of=/dev/null bs=" + mb + "M count=1 2>&1" }

// limited skips the test if memory has no limit.
func limited(t *testing.T, r runtime.Runtime) {
	t.Helper()
	caps, err := r.Probe(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if !caps.Protection(runtime.ProtectMemory).Enforced {
		t.Skip("memory has no limit here")
	}
}

// A claimed sandbox has the memory limit of its caller, although it was made before.
func testClaimedMemory(t *testing.T, o Options) {
	j := blank(t, o, func(s *runtime.Spec) { s.Limits.MemoryMB = 160 })
	limited(t, j.runtime)
	spec := o.spec()
	spec.Limits.MemoryMB = 160
	j.claim(spec)
	j.must(take("96"))
	j.tooMuch("704")
}

func testMemory(t *testing.T, o Options) {
	j := open(t, o, func(s *runtime.Spec) { s.Limits.MemoryMB = 192 })
	limiter, ok := j.Sandbox.(runtime.MemoryLimiter)
	if !ok {
		t.Skip("the memory of this runtime's sandboxes stays what it is")
	}
	limited(t, j.runtime)
	caps, err := j.runtime.Probe(j.ctx)
	if err != nil || !caps.LimitMemory {
		t.Errorf("probe: %+v, %v", caps, err)
	}
	j.must(take("128"))
	// The limit follows files, so that they do not count.
	j.must("dd if=/dev/zero of=/workspace/file bs=1M count=60 2>&1")
	if err := limiter.LimitMemory(j.ctx, 64); err != nil {
		t.Fatal(err)
	}
	j.must(take("40"))
	if err := limiter.LimitMemory(j.ctx, 192); err != nil {
		t.Fatal(err)
	}
	j.must(take("128"))
	if err := limiter.LimitMemory(j.ctx, 64); err != nil {
		t.Fatal(err)
	}
	j.tooMuch("704") // more than the limits of files and programs together
}

// tooMuch runs a program that exceeds its memory limit: the program ends, or the sandbox does.
func (j *jar) tooMuch(mb string) {
	j.Helper()
	p, err := j.agent.Exec(j.ctx, j.sh(take(mb)))
	if errors.Is(err, agent.ErrDisconnected) {
		return // its sandbox ended before the answer was sent
	}
	if err != nil {
		j.Fatal(err)
	}
	defer p.Close()
	exit, err := p.Output(j.ctx, func(int64, wire.Stream, []byte) error { return nil })
	if err == nil && exit.Code == 0 && exit.Signal == 0 {
		j.Errorf("it had %s MiB: %+v", mb, exit)
	}
}
