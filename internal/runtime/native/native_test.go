//go:build linux

package native_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/native"
	"github.com/belljar/belljar/internal/runtime/runtimetest"
	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/tier"
)

// agentPath names the built agent, for the tests that run this binary again as another user.
const agentPath = "BELLJAR_TEST_AGENT"

// netPath names the built test/net in the same way.
const netPath = "BELLJAR_TEST_NET"

// shortSuite makes the suite skip tests that depend on the agent alone.
const shortSuite = "BELLJAR_TEST_SHORT"

var agentProgram []byte

func TestMain(m *testing.M) {
	if id := os.Getenv("BELLJAR_TEST_ABANDON"); id != "" {
		fmt.Fprintln(os.Stderr, makeAbandoned(id))
		os.Exit(1)
	}
	if point := os.Getenv("BELLJAR_TEST_CLAIM"); point != "" {
		fmt.Fprintln(os.Stderr, claimAndDie(point))
		os.Exit(1)
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	path := os.Getenv(agentPath)
	if path == "" {
		dir, err := os.MkdirTemp("", "belljar-agent-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if path, err = build.Agent(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		os.Setenv(agentPath, path)
		net, err := build.Net(dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		os.Setenv(netPath, net)
	}
	var err error
	if agentProgram, err = os.ReadFile(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func open(t testing.TB, dir string) *native.Runtime {
	t.Helper()
	return openAs(t, dir, "test")
}

// openAs opens a runtime of an installation. Two runtimes must not share a name: each would sweep sandboxes that it does
// not know.
func openAs(t testing.TB, dir, installation string) *native.Runtime {
	t.Helper()
	r, err := native.New(native.Options{Agent: bytes.NewReader(agentProgram), RunDir: dir, Installation: installation})
	if err != nil {
		t.Fatal(err)
	}
	runtimetest.CloseAfter(t, r)
	return r
}

func spec() runtime.Spec {
	limits := belljar.DefaultLimits()
	return runtime.Spec{
		ID: belljar.NewID(), Root: runtime.Root{Ref: runtime.HostRef}, Limits: limits,
		Workspace: runtime.Workspace{Bytes: 16 << 20, Inodes: 4096, Exec: true, Medium: runtime.MediumMemory},
	}
}

func TestConformance(t *testing.T) {
	o := runtimetest.Options{
		UID: 1000, GID: 1000, Isolated: true, Parallel: true, Net: os.Getenv(netPath), Short: os.Getenv(shortSuite) != "", Few: os.Getenv(shortSuite) != "",
	}
	o.New, o.Restart = runtimetest.Restarting((*testing.T).TempDir, func(t *testing.T, dir string) runtime.Runtime {
		h := fnv.New64a()
		h.Write([]byte(dir))
		return openAs(t, dir, fmt.Sprintf("test-%x", h.Sum64()))
	}, func(*testing.T, runtime.Runtime) {})
	runtimetest.Run(t, o)
}

// Root can enforce every protection here; otherwise a test of one proves nothing.
func TestRootEnforcesEverything(t *testing.T) {
	need.Root(t)
	caps, err := open(t, t.TempDir()).Test(context.Background())
	if err != nil || !caps.Available {
		t.Fatalf("not available: %+v, %v", caps.Reasons, err)
	}
	for _, p := range caps.Protections {
		if !p.Enforced {
			t.Errorf("%s is not enforced: %s", p.Name, p.Hint)
		}
	}
}

// Root that cannot make device nodes gets a warning, once, and sees it among the protections.
func TestHostsDevices(t *testing.T) {
	need.Root(t)
	var log bytes.Buffer
	r, err := native.New(native.Options{
		Agent: bytes.NewReader(agentProgram), RunDir: t.TempDir(), Installation: "test", Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	runtimetest.CloseAfter(t, r)
	r.OwnNodes("/proc/none")
	for range 2 {
		caps, err := r.Test(t.Context())
		if err != nil || !caps.Available {
			t.Fatalf("%+v, %v", caps.Reasons, err)
		}
		if p := caps.Protection(runtime.ProtectFilesystem); !p.Enforced || p.Weaker != "device nodes are the host's" || !strings.Contains(p.Hint, "CAP_MKNOD") {
			t.Errorf("%+v", p)
		}
	}
	if n := strings.Count(log.String(), "device nodes of sandboxes are the host's"); n != 1 {
		t.Errorf("%d warnings in %q", n, &log)
	}
}

// The test as an ordinary user without subordinate ids, the weakest way. The other rootless ways differ in the ids only,
// and test/security runs on all of them.
func TestRootless(t *testing.T) {
	const uid = 61501
	dir, program := need.User(t, uid)
	t.Parallel()
	// What fails at each step of a birth or a claim costs as much as all the rest, and root has tried it.
	cmd := exec.Command(program, "-test.v", "-test.timeout=35m", "-test.skip="+tier.Pick("^Test(SilentDeathAnywhere|HangAnywhere|SignalledInBirth|KilledWhileClaiming)$", ""))
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir, agentPath + "=" + os.Getenv(agentPath), netPath + "=" + os.Getenv(netPath), shortSuite + "=" + tier.Pick("1", "")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if passed := bytes.Count(out, []byte("--- PASS: ")); passed < 50 {
		t.Errorf("only %d tests passed:\n%s", passed, out)
	}
}

// A daemon that is killed leaves its detached sandbox alive, and the next one finds it and can remove it.
func TestSurvivesItsDaemon(t *testing.T) {
	dir := t.TempDir()
	id := runtimetest.Killed(t, dir, runtime.LifetimeDetached)
	runtimetest.Survived(t, open(t, dir), id)
	nothingLeft(t, dir)
}

// If a creator is killed, its sandbox ends too, and the next process sweeps the remains on disk.
func TestEndsWithItsCreator(t *testing.T) {
	dir := t.TempDir()
	id := runtimetest.Killed(t, dir, runtime.LifetimeCreator)
	runtimetest.Ended(t, open(t, dir), filepath.Join(dir, native.Name, "test", id+".lock"))
	nothingLeft(t, dir)
}

// The next process sweeps the remains of a killed creator.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	box, err := r.Create(context.Background(), spec())
	if err != nil {
		t.Fatal(err)
	}
	leftover := belljar.NewID()
	if err := os.MkdirAll(filepath.Join(dir, native.Name, "test", leftover), 0o700); err != nil {
		t.Fatal(err)
	}
	n, err := r.Sweep(context.Background())
	if n != 1 || err != nil {
		t.Errorf("swept %d, %v; want the one leftover", n, err)
	}
	if _, err := agent.New(box.Dial).Ping(context.Background()); err != nil {
		t.Errorf("the living sandbox: %v", err)
	}
	ids, err := r.List(context.Background())
	if len(ids) != 1 || ids[0] != box.ID() || err != nil {
		t.Errorf("list returns %v, %v", ids, err)
	}
}

// A sandbox that cannot be built names the failed step and leaves nothing.
func TestFailureLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	for name, c := range map[string]struct {
		change func(*runtime.Spec)
		step   string
	}{
		"no such image":         {func(s *runtime.Spec) { s.Root = runtime.Root{Dir: "/no/such/image"} }, "image"},
		"no such lock":          {func(s *runtime.Spec) { s.Root = runtime.Root{Dir: "/", Lock: "/no/such/lock"} }, "image"},
		"a user too high":       {func(s *runtime.Spec) { s.Root.UID = 65536 }, "userns"},
		"no workspace":          {func(s *runtime.Spec) { s.Workspace.Bytes = 0 }, "mount"},
		"a network":             {func(s *runtime.Spec) { s.Network.Mode = "bridge" }, "network"},
		"a disk":                {func(s *runtime.Spec) { s.Workspace.Medium = runtime.MediumDisk }, "mount"},
		"an unknown protection": {func(s *runtime.Spec) { s.Require = []string{"moat"} }, "moat"},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec()
			c.change(&s)
			_, err := r.Create(context.Background(), s)
			var step *runtime.StepError
			if !errors.As(err, &step) || step.Step != c.step {
				t.Errorf("got %v, want a failure of step %s", err, c.step)
			}
			nothingLeft(t, dir)
		})
	}
}

func TestSameIDTwice(t *testing.T) {
	r := open(t, t.TempDir())
	s := spec()
	box, err := r.Create(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Create(context.Background(), s); err == nil {
		t.Error("a second sandbox of the same id was made")
	}
	if _, err := agent.New(box.Dial).Ping(context.Background()); err != nil {
		t.Errorf("the first one is gone: %v", err)
	}
}

// Two living sandboxes never share a host id, unless they report that they do.
func TestIDRangesAreDistinct(t *testing.T) {
	r := open(t, t.TempDir())
	caps, err := r.Probe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 5 {
		box, err := r.Create(context.Background(), spec())
		if err != nil {
			t.Fatal(err)
		}
		// A tmpfs shows its owner's id on the host.
		owner := ownerOption.FindString(read(t, box, "/proc/self/mountinfo"))
		if owner == "" {
			t.Fatal("no mount shows its owner")
		}
		if seen[owner] && caps.AgentUID != "shared" {
			t.Errorf("two sandboxes have the host id %s", owner)
		}
		seen[owner] = true
	}
}

var ownerOption = regexp.MustCompile(`\buid=[0-9]+`)

// read returns a file of a sandbox as a program inside sees it.
func read(t *testing.T, box runtime.Sandbox, path string) string {
	t.Helper()
	return output(t, box, "/bin/cat", path)
}

// output returns the output of a command that must succeed.
func output(t *testing.T, box runtime.Sandbox, argv ...string) string {
	t.Helper()
	out, exit := runtimetest.Execute(t, box.Dial, wire.Exec{ID: belljar.NewID(), Argv: argv, UID: 1000, GID: 1000, KillAll: true})
	if exit.Code != 0 {
		t.Fatalf("%q: %+v, %q", argv, exit, out)
	}
	return out
}

func TestManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			box, err := r.Create(context.Background(), spec())
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := agent.New(box.Dial).Ping(context.Background()); err != nil {
				t.Error(err)
			}
			if err := box.Destroy(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	nothingLeft(t, dir)
}

// nothingLeft checks that no trace of a sandbox is on disk.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, native.Name, "test"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("left over: %s", e.Name())
	}
}
