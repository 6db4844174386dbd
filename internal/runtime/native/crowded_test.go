//go:build linux

package native_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/runtimetest"
	"github.com/belljar/belljar/test/need"
)

// Sandboxes together have no more processes than their bound, although each may have that many, and a refusal is not due to their own limit.
func TestCrowded(t *testing.T) {
	const bound, each, held = 150, 256, 60
	r := openAs(t, t.TempDir(), "crowded")
	if r.Jars.Cgroups == nil || !r.Jars.Cgroups.Capability(cgroup.Pids).Enforced {
		need.Missing(t, "a cgroup that counts processes")
	}
	r.Jars.Cgroups.Bind(cgroup.Bound{Pids: bound})
	s := spec()
	s.Limits.Pids, s.Limits.NProc = each, each
	create := func() (runtime.Sandbox, error) {
		s.ID = belljar.NewID()
		return r.Create(t.Context(), s)
	}
	// fork starts sleeping processes, and returns how many started.
	fork := func(box runtime.Sandbox, n string) int {
		out, _ := runtimetest.Execute(t, box.Dial, wire.Exec{
			ID: belljar.NewID(), Argv: []string{"/bin/sh", "-c", "i=0; while [ $i -lt " + n + " ]; do sleep 1000 >/dev/null 2>&1 & i=$((i+1)); echo; done"},
			UID: 1000, GID: 1000, Rlimits: map[string]uint64{"nproc": each},
		})
		return strings.Count(out, "\n")
	}
	first, err := create()
	if err != nil {
		t.Fatal(err)
	}
	second, err := create()
	if err != nil {
		t.Fatal(err)
	}
	if n := fork(first, "60"); n != held {
		t.Errorf("%d processes next to none", n)
	}
	if n := fork(second, "200"); n == 0 || n > bound-held {
		t.Errorf("%d processes next to %d of %d", n, held, bound)
	}
	usage, err := second.Usage(t.Context())
	if err != nil || usage.PeakPids != nil && !usage.PidsBelow {
		t.Errorf("%+v, %v", usage, err)
	}
	if _, err := create(); !errors.Is(err, runtime.ErrFull) {
		t.Errorf("a third sandbox: %v", err)
	}
	if err := second.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := create(); err != nil {
		t.Errorf("after the end of one: %v", err)
	}
}
