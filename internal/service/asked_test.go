package service_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service"
)

// weakBench is a service without required protections, on a host that limits processes, memory partly, and CPU not at all.
func weakBench(t *testing.T, options ...func(*service.Options)) *bench {
	rt := fake.New(fake.Options{
		Dir: t.TempDir(), Enforces: []string{runtime.ProtectPids}, StandIns: map[string]string{runtime.ProtectMemory: runtime.ByRlimitData},
	})
	t.Cleanup(func() { rt.Close() })
	return newBench(t, append(options, func(o *service.Options) { o.Runtimes = []runtime.Runtime{rt} })...)
}

// A requested limit is enforced or refused, even if the server's policy waives the protection, unless the request waives it.
func TestAskedLimits(t *testing.T) {
	b := weakBench(t)
	user := b.service.As(belljar.Caller{ID: "u", Role: belljar.RoleUser})
	for name, test := range map[string]struct {
		runs  belljar.Runs
		ask   belljar.Resources
		weak  []string
		code  belljar.Code // "" if it runs
		field string
		user  bool // the hint leaves it to operators
	}{
		"nothing":                  {runs: b.Runs},
		"nothing, a user":          {runs: user.Runs()},
		"processes":                {runs: b.Runs, ask: belljar.Resources{Pids: 100}},
		"memory":                   {runs: b.Runs, ask: belljar.Resources{MemoryMB: 64}, code: belljar.CodeRuntimeUnavailable, field: "resources.memory_mb"},
		"memory, a user":           {runs: user.Runs(), ask: belljar.Resources{MemoryMB: 64}, code: belljar.CodeRuntimeUnavailable, field: "resources.memory_mb", user: true},
		"memory given up":          {runs: b.Runs, ask: belljar.Resources{MemoryMB: 64}, weak: []string{"memory"}},
		"memory, another given up": {runs: b.Runs, ask: belljar.Resources{MemoryMB: 64}, weak: []string{"cpu"}, code: belljar.CodeRuntimeUnavailable, field: "resources.memory_mb"},
		"memory, a user gives up":  {runs: user.Runs(), ask: belljar.Resources{MemoryMB: 64}, weak: []string{"memory"}, code: belljar.CodePolicyDenied, field: "allow_weak"},
		"processors":               {runs: b.Runs, ask: belljar.Resources{CPU: 0.5}, code: belljar.CodeRuntimeUnavailable, field: "resources.cpu"},
		"processors given up":      {runs: b.Runs, ask: belljar.Resources{CPU: 0.5}, weak: []string{"cpu"}},
	} {
		req := shell("true")
		req.Resources, req.AllowWeak = test.ask, test.weak
		run, err := test.runs.Start(b.context(), req)
		var e *belljar.Error
		switch {
		case test.code == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.code == "":
			if _, _, err := belljar.Collect(b.context(), test.runs, run.ID); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case !errors.As(err, &e) || e.Code != test.code || e.Details["field"] != test.field || e.Code == belljar.CodeRuntimeUnavailable && (!strings.Contains(e.Hint, "allow_weak") || strings.Contains(e.Hint, "operator") != test.user):
			t.Errorf("%s: %v, %+v", name, err, e)
		}
	}
	spec := belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: belljar.SpecVersion, BaseImage: "host", Resources: belljar.Resources{MemoryMB: 64}}}
	if _, err := user.Sessions().Create(b.context(), spec); belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable {
		t.Errorf("a session: %v", err)
	}
}

// The audit trail has the protections that a request waived and the host lacks.
func TestWaivedProtectionsAreAudited(t *testing.T) {
	var events diary
	b := weakBench(t, func(o *service.Options) { o.Events = &events })
	b.run(shell("true"))
	req := shell("true")
	req.AllowWeak = []string{"pids"} // which this host enforces
	b.run(req)
	req.AllowWeak = []string{"pids", "memory", "cpu", "memory"}
	b.run(req)
	b.open()
	b.open(func(r *belljar.SessionRequest) { r.AllowWeak = []string{"memory"} })
	var got []string
	for _, e := range append(events.named(event.RunCreated), events.named(event.SessionCreated)...) {
		got = append(got, e.Detail["allow_weak"])
	}
	if want := []string{"", "", "cpu, memory", "", "memory"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A report lists limits in force: a limit that is not enforced is 0, and its substitute is named.
func TestLimitsInForce(t *testing.T) {
	b := weakBench(t)
	for memory, data := range map[int]string{0: "1048576", 64: "131072"} { // in KiB, twice the limit
		req := shell("ulimit -d")
		req.Resources.MemoryMB, req.AllowWeak = memory, []string{"memory"}
		got := b.run(req)
		got.want(t, belljar.PhaseCompleted, 0, "")
		limits := got.ResourceUsage.Limits
		if limits.MemoryMB != 0 || limits.CPU != 0 || limits.Pids != 256 || limits.TimeoutSec == 0 || strings.TrimSpace(got.stdout) != data {
			t.Errorf("limits %+v, RLIMIT_DATA %s", limits, got.stdout)
		}
		if _, is := got.LimitsEnforced["cpu"]; is || got.LimitsEnforced["memory"] != "RLIMIT_DATA of each process" || got.LimitsEnforced["pids"] == "" {
			t.Errorf("enforced: %v", got.LimitsEnforced)
		}
		const warning = "limits not enforced on this host: cpu, disk; memory only by RLIMIT_DATA of each process"
		if len(got.Warnings) != 1 || got.Warnings[0] != warning {
			t.Errorf("warnings %q, want %q", got.Warnings, warning)
		}
	}
}
