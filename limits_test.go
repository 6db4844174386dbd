package belljar_test

import (
	"cmp"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/belljar/belljar"
)

// TestDefaultLimits pins the defaults of docs/compatibility.md.
func TestDefaultLimits(t *testing.T) {
	want := belljar.Limits{
		CPU: 1, MemoryMB: 512, Pids: 256, NoFile: 1024, NProc: 256, WorkspaceMB: 256, TmpMB: 64, Inodes: 65536,
		LogBytes: 10 << 20, ArtifactMB: 32, StartupTimeoutSec: 20, TimeoutSec: 60, BuildTimeoutSec: 60, GraceSec: 5,
	}
	got, err := belljar.DefaultLimits().Resolve(belljar.Resources{}, 0, 0, belljar.MaxLimits())
	if err != nil || got != want {
		t.Errorf("nothing asked: %+v, %v\nwant %+v", got, err, want)
	}
}

func TestResolveRefuses(t *testing.T) {
	for _, test := range []struct {
		name             string
		ask              belljar.Resources
		startup, timeout float64
		field            string
		code             belljar.Code
	}{
		{"negative cpu", belljar.Resources{CPU: -1}, 0, 0, "resources.cpu", belljar.CodeInvalidRequest},
		{"NaN", belljar.Resources{CPU: math.NaN()}, 0, 0, "resources.cpu", belljar.CodeInvalidRequest},
		{"infinite", belljar.Resources{}, 0, math.Inf(1), "timeout_sec", belljar.CodeInvalidRequest},
		{"too little memory", belljar.Resources{MemoryMB: 1}, 0, 0, "resources.memory_mb", belljar.CodeInvalidRequest},
		{"negative pids", belljar.Resources{Pids: -5}, 0, 0, "resources.pids", belljar.CodeInvalidRequest},
		{"negative log", belljar.Resources{LogBytes: math.MinInt64}, 0, 0, "resources.log_bytes", belljar.CodeInvalidRequest},
		{"negative timeout", belljar.Resources{}, 0, -1, "timeout_sec", belljar.CodeInvalidRequest},
		{"too much cpu", belljar.Resources{CPU: 4.01}, 0, 0, "resources.cpu", belljar.CodePolicyDenied},
		{"too much memory", belljar.Resources{MemoryMB: 8193}, 0, 0, "resources.memory_mb", belljar.CodePolicyDenied},
		{"absurd memory", belljar.Resources{MemoryMB: math.MaxInt}, 0, 0, "resources.memory_mb", belljar.CodePolicyDenied},
		{"too many files", belljar.Resources{NoFile: 65537}, 0, 0, "resources.nofile", belljar.CodePolicyDenied},
		{"too many processes", belljar.Resources{NProc: 4097}, 0, 0, "resources.nproc", belljar.CodePolicyDenied},
		{"large workspace", belljar.Resources{WorkspaceMB: 4097}, 0, 0, "resources.workspace_mb", belljar.CodePolicyDenied},
		{"large artifacts", belljar.Resources{ArtifactMB: 1025}, 0, 0, "resources.artifact_mb", belljar.CodePolicyDenied},
		{"long start", belljar.Resources{}, 601, 0, "startup_timeout_sec", belljar.CodePolicyDenied},
		{"long run", belljar.Resources{}, 0, 1e300, "timeout_sec", belljar.CodePolicyDenied},
	} {
		got, err := belljar.DefaultLimits().Resolve(test.ask, test.startup, test.timeout, belljar.MaxLimits())
		var e *belljar.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %+v, %v; want a belljar.Error", test.name, got, err)
		} else if e.Code != test.code || e.Details["field"] != test.field {
			t.Errorf("%s: %s %v, want %s %s", test.name, e.Code, e.Details["field"], test.code, test.field)
		}
	}
}

// A request that sets no CPU time has no limit of it.
func TestResolveCPUTime(t *testing.T) {
	for ask, want := range map[float64]belljar.Code{0: "", 0.01: "", 86400: "", 0.009: belljar.CodeInvalidRequest, -1: belljar.CodeInvalidRequest, 86401: belljar.CodePolicyDenied} {
		got, err := belljar.DefaultLimits().ResolveRun(&belljar.RunSpec{CPUTimeSec: ask}, belljar.MaxLimits())
		if belljar.CodeOf(err) != want || err == nil && got.CPUTimeSec != ask {
			t.Errorf("%v: %+v, %v", ask, got, err)
		}
	}
}

// For any request, the result is a refusal, or limits that keep every requested value and stay between the bounds.
func TestResolveProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		num := func(name string) int { return rapid.OneOf(rapid.Just(0), rapid.IntRange(-10, 100_000)).Draw(t, name) }
		real := func(name string) float64 {
			return rapid.OneOf(rapid.Just(0.0), rapid.Float64(), rapid.Float64Range(-1, 1000)).Draw(t, name)
		}
		ask := belljar.Resources{
			CPU: real("cpu"), MemoryMB: num("memory"), Pids: num("pids"), NoFile: num("nofile"), NProc: num("nproc"),
			WorkspaceMB: num("workspace"), LogBytes: int64(num("log")), ArtifactMB: num("artifact"),
		}
		startup, timeout := real("startup"), real("timeout")
		base, most := belljar.DefaultLimits(), belljar.MaxLimits()
		follows := cmp.Or(ask.Pids, base.NProc) // unset, it equals pids
		got, err := base.Resolve(ask, startup, timeout, most)
		if err != nil {
			if c := belljar.CodeOf(err); c != belljar.CodeInvalidRequest && c != belljar.CodePolicyDenied {
				t.Fatalf("code %s", c)
			}
			if got != (belljar.Limits{}) {
				t.Fatalf("refused with limits %+v", got)
			}
			return
		}
		for _, row := range []struct {
			name                   string
			ask, base, most, value float64
		}{
			{"cpu", ask.CPU, base.CPU, most.CPU, got.CPU},
			{"memory", float64(ask.MemoryMB), float64(base.MemoryMB), float64(most.MemoryMB), float64(got.MemoryMB)},
			{"pids", float64(ask.Pids), float64(base.Pids), float64(most.Pids), float64(got.Pids)},
			{"nofile", float64(ask.NoFile), float64(base.NoFile), float64(most.NoFile), float64(got.NoFile)},
			{"nproc", float64(ask.NProc), float64(follows), float64(most.NProc), float64(got.NProc)},
			{"workspace", float64(ask.WorkspaceMB), float64(base.WorkspaceMB), float64(most.WorkspaceMB), float64(got.WorkspaceMB)},
			{"log", float64(ask.LogBytes), float64(base.LogBytes), float64(most.LogBytes), float64(got.LogBytes)},
			{"artifact", float64(ask.ArtifactMB), float64(base.ArtifactMB), float64(most.ArtifactMB), float64(got.ArtifactMB)},
			{"startup", startup, base.StartupTimeoutSec, most.StartupTimeoutSec, got.StartupTimeoutSec},
			{"timeout", timeout, base.TimeoutSec, most.TimeoutSec, got.TimeoutSec},
		} {
			want := row.ask
			if want == 0 {
				want = row.base
			}
			if row.value != want || row.value <= 0 || row.value > row.most {
				t.Fatalf("%s: asked %v, got %v, most %v", row.name, row.ask, row.value, row.most)
			}
		}
		if got.TmpMB != base.TmpMB || got.Inodes != base.Inodes || got.GraceSec != base.GraceSec {
			t.Fatalf("a field that no request can set changed: %+v", got)
		}
	})
}
