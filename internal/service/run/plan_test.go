package run

import (
	host "runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/session"
)

func planned(change func(*plan)) *plan {
	p := &plan{Placement: placement.Placement{Limits: belljar.DefaultLimits(), Image: runtime.Root{Ref: "host"}}}
	p.Caps.Protections = []runtime.Protection{{Name: runtime.ProtectCPU, Enforced: true}, {Name: runtime.ProtectDisk, Enforced: true}}
	p.argv = []string{"x", "y"}
	if change != nil {
		change(p)
	}
	return p
}

func TestExecution(t *testing.T) {
	got := planned(nil).command("id", &box.Box{UID: 1, GID: 2})
	want := wire.Exec{
		ID: "id", Argv: []string{"x", "y"}, UID: 1, GID: 2, TimeoutMS: 60_000, GraceMS: 5000, OutputLimit: 10<<20 + 1, KillAll: true,
		Rlimits: map[string]uint64{"nofile": 1024, "nproc": 256, "core": 0, "cpu": 62, "fsize": 512<<20 + 1},
		Env: []string{
			"HOME=/workspace", "LANG=C.UTF-8", "LOGNAME=sandbox", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin",
			"PWD=/workspace", "TERM=dumb", "TMPDIR=/tmp", "USER=sandbox",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A process limit that this host can enforce is enforced by the user's own count, which excludes the agent.
func TestProcessLimit(t *testing.T) {
	p := planned(func(p *plan) {
		p.Caps.Protections = append(p.Caps.Protections, runtime.Protection{Name: runtime.ProtectPids, Enforced: true})
	})
	p.Bind()
	if got := p.Rlimits()["nproc"]; got != 256 || p.Limits.NProc != 256 {
		t.Errorf("nproc is %d, shown as %d, want that of pids, 256", got, p.Limits.NProc)
	}
}

// The request's environment overrides the image's, which overrides Belljar's.
func TestEnvironmentOrder(t *testing.T) {
	env := planned(func(p *plan) {
		p.Image.Env, p.Image.WorkingDir = []string{"LANG=image", "HOME=image", "X=a=b"}, "/srv"
		p.request.Env = map[string]string{"HOME": "request", "Y": ""}
		p.Exec = true
	}).environment()
	for _, want := range []string{"LANG=image", "HOME=request", "X=a=b", "Y=", "PWD=/srv", "TMPDIR=/workspace/.tmp"} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s in %q", want, env)
		}
	}
}

// A program whose files are in the workspace starts there, even in an image with another working directory.
func TestWorkingFolder(t *testing.T) {
	for what, change := range map[string]func(*plan){
		"a volume":         func(p *plan) { p.request.Workspace.Volume = "data" },
		"a file in Python": func(p *plan) { p.request.Language = "python" },
		"a file in C":      func(p *plan) { p.request.Language, p.build = "c", &build{} },
		"a repository":     func(p *plan) { p.request.Git = &belljar.GitSpec{} },
	} {
		p := planned(change)
		p.Image.WorkingDir = "/srv"
		if got := p.cwd() + p.forBuild().cwd(); got != "" {
			t.Errorf("%s: %s", what, got)
		}
	}
}

// Several cores use CPU time faster than wall time. The rlimit must not end a program before its timeout.
func TestCPURlimit(t *testing.T) {
	for _, test := range []struct {
		cpu, timeout float64
		want         uint64
	}{{1, 60, 62}, {0.5, 60, 62}, {4, 60, 242}, {1.5, 0.1, 3}} {
		p := planned(func(p *plan) { p.Limits.CPU, p.Limits.TimeoutSec = test.cpu, test.timeout })
		if got := p.Rlimits()["cpu"]; got != test.want {
			t.Errorf("%v cores for %v s: %d, want %d", test.cpu, test.timeout, got, test.want)
		}
	}
}

// Without a limit on cores, threads can use CPU time on all of the host's. Files have no maximum without a limit on the workspace, or with one
// on memory, which counts memory files. Surviving processes in a session may use more CPU time than their run.
func TestLimitsOfWhatIsUnlimited(t *testing.T) {
	p := planned(func(p *plan) { p.Caps.Protections, p.Limits.CPU, p.Limits.TimeoutSec = p.Caps.Protections[1:], 1, 60 })
	if got := p.command("id", &box.Box{}).Rlimits["cpu"]; got != uint64(60*host.NumCPU()+2) {
		t.Errorf("no limit of cores: %d s", got)
	}
	for name, test := range map[string]struct {
		change  func(*plan)
		missing string
	}{
		"no limit of a workspace": {func(p *plan) { p.Caps.Protections = p.Caps.Protections[:1] }, "fsize"},
		"a limit of memory": {func(p *plan) {
			p.Caps.Protections = append(p.Caps.Protections, runtime.Protection{Name: runtime.ProtectMemory, Enforced: true})
		}, "fsize"},
		"a run in a session": {func(p *plan) { p.session = &session.Session{} }, "cpu"},
	} {
		got := planned(test.change).command("id", &box.Box{}).Rlimits
		if _, has := got[test.missing]; has || len(got) != 4 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, test := range []struct {
		pattern, path string
		want          bool
	}{
		{"*", "a", true}, {"*", "a/b", false}, {"**", "a/b", true}, {"out/*.csv", "out/a.csv", true}, {"out/*.csv", "out/b/a.csv", false},
		{"out/**/*.csv", "out/a.csv", true}, {"out/**/*.csv", "out/b/c/a.csv", true}, {"{a,b}.txt", "b.txt", true},
		{"a", "a", true}, {"a", "ab", false}, {"*", ".hidden", true}, {"A", "a", false}, {"[", "[", false},
		{"**", ".tmp/x", false}, {".tmp/*", ".tmp/x", true}, {"**", "a/.tmp/x", true}, {"**", ".tmpx", true},
	} {
		if got := matches(test.pattern, test.path); got != test.want {
			t.Errorf("%q matches %q: %t", test.pattern, test.path, got)
		}
	}
}

func TestSeconds(t *testing.T) {
	if got := clock.Seconds(1e300); got <= 0 || got+got <= 0 {
		t.Errorf("a long time is %v", got)
	}
}
