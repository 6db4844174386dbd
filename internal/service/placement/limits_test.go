package placement

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// Every limit has a default, and no admitted limit exceeds the largest.
func TestLimitsAreWhole(t *testing.T) {
	if diff := cmp.Diff(belljar.DefaultLimits(), WithDefaults(belljar.Limits{}, belljar.DefaultLimits())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	own := belljar.Limits{MemoryMB: 7}
	if got := WithDefaults(own, belljar.DefaultLimits()); got.MemoryMB != 7 {
		t.Errorf("a limit that is set became %d", got.MemoryMB)
	}
	most, all := reflect.ValueOf(belljar.MaxLimits()), reflect.ValueOf(Unlimited())
	for i := range most.NumField() {
		if !most.Field(i).IsZero() && all.Field(i).IsZero() {
			t.Errorf("%s is not among the largest limits", most.Type().Field(i).Name)
		}
	}
}

func TestUnenforced(t *testing.T) {
	caps := runtime.Capabilities{Protections: []runtime.Protection{
		{Name: runtime.ProtectCPU, Enforced: true, By: "cgroup2"}, {Name: runtime.ProtectMemory, By: "rlimit"},
		{Name: runtime.ProtectPids, Enforced: true, By: "cgroup2"}, {Name: runtime.ProtectDisk, Enforced: true, By: "tmpfs"},
		{Name: runtime.ProtectWallTime, Enforced: true, By: "agent"}, {Name: runtime.ProtectSeccomp, Enforced: true, By: "seccomp"},
	}}
	want := map[string]string{"cpu": "cgroup2", "memory": "rlimit", "pids": "cgroup2", "disk": "tmpfs", "wall_time": "agent"}
	if diff := cmp.Diff(want, Enforced(caps)); diff != "" {
		t.Errorf("enforced (-want +got):\n%s", diff)
	}
	if got, want := Unenforced(caps), "limits not enforced on this host: cpu_time; memory only by rlimit"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
