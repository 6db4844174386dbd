//go:build linux

package native_test

import (
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/test/need"
)

// A hundredth of a core would take minutes to end 200 busy processes: the end of a sandbox lifts the limit.
func TestDestroyStarved(t *testing.T) {
	r := openAs(t, t.TempDir(), "starved")
	if r.Jars.Cgroups == nil || !r.Jars.Cgroups.Capability(cgroup.CPU).Enforced {
		need.Missing(t, "a cgroup that limits the CPU")
	}
	s := spec()
	s.Limits.CPU, s.Limits.Pids, s.Limits.NProc = 1, 256, 256
	box, err := r.Create(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	p, err := agent.New(box.Dial).Exec(t.Context(), wire.Exec{
		ID: belljar.NewID(), Argv: []string{"/bin/sh", "-c", "for i in $(seq 200); do while :; do :; done & done; echo all; wait"},
		UID: 1000, GID: 1000, Rlimits: map[string]uint64{"nproc": 256},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	all := make(chan struct{})
	go p.Output(t.Context(), func(int64, wire.Stream, []byte) error { close(all); return nil })
	<-all
	if err := box.(interface {
		Change(from, to cgroup.Limits) error
	}).Change(cgroup.Limits{CPU: 1}, cgroup.Limits{CPU: 0.01}); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := box.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}
