//go:build linux

package gvisor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/test/need"
)

// The cgroup of a sandbox, made or claimed, has the CPU quota of its request as a number.
func TestCPUQuota(t *testing.T) {
	r := open(t, t.TempDir())
	if p := r.Limit(runtime.ProtectCPU); !p.Enforced {
		need.Missing(t, "a cgroup that limits CPU time: %+v", p)
	}
	request := spec()
	request.Limits.CPU = 0.5
	box, err := r.Create(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if got := quota(t, box.ID()); got != 0.5 {
		t.Errorf("a sandbox with half a core has a quota of %v cores", got)
	}
	blank := r.Blank(spec())
	blank.ID = belljar.NewID()
	if _, err := r.Create(t.Context(), blank); err != nil {
		t.Fatal(err)
	}
	request = spec()
	request.Limits.CPU = 1.5
	if _, err := r.Claim(t.Context(), blank.ID, request); err != nil {
		t.Fatal(err)
	}
	if got := quota(t, blank.ID); got != 1.5 { // the cgroup keeps its name
		t.Errorf("a claimed sandbox with one core and a half has a quota of %v cores", got)
	}
}

// quota returns the CPU quota of a sandbox's cgroup, in cores.
func quota(t *testing.T, id string) float64 {
	t.Helper()
	var limit, period float64
	if files := cgroups(t, id, "cpu.max"); len(files) == 1 {
		scan(t, files[0], &limit, &period)
	} else if files = cgroups(t, id, "cpu.cfs_quota_us"); len(files) == 1 {
		scan(t, files[0], &limit)
		scan(t, filepath.Join(filepath.Dir(files[0]), "cpu.cfs_period_us"), &period)
	} else {
		t.Fatalf("sandbox %s has %d quotas", id, len(files))
	}
	return limit / period
}

func scan(t *testing.T, file string, numbers ...any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		_, err = fmt.Sscan(string(text), numbers...)
	}
	if err != nil {
		t.Fatalf("%s: %q, %v", file, text, err)
	}
}
