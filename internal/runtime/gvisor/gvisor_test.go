//go:build linux

package gvisor_test

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/gvisor"
	"github.com/belljar/belljar/internal/runtime/rack"
	"github.com/belljar/belljar/internal/runtime/runtimetest"
	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/tier"
)

// agentPath names the built agent and runscPath belljar-runsc, for the tests that run this binary again as another user.
const (
	agentPath = "BELLJAR_TEST_AGENT"
	runscPath = "BELLJAR_TEST_RUNSC"
	netPath   = "BELLJAR_TEST_NET" // test/net
)

func TestMain(m *testing.M) {
	if id := os.Getenv("BELLJAR_TEST_ABANDON"); id != "" {
		fmt.Fprintln(os.Stderr, abandon(id))
		os.Exit(1)
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	if os.Getenv(runscPath) == "" {
		built, err := filepath.Abs("../../../bin/belljar-runsc")
		if err == nil {
			_, err = os.Stat(built)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "nothing of gVisor is tested: bin/belljar-runsc is not built; make gvisor does that")
			if build.Prepared() { // make test has built it
				return 1
			}
			return 0
		}
		os.Setenv(runscPath, built)
	}
	if os.Getenv(agentPath) == "" {
		dir, err := os.MkdirTemp("", "belljar-agent-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		path, err := build.Agent(dir)
		if err != nil {
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
	return m.Run()
}

// installation returns the installation's name for a runtime whose files are in dir. Two runtimes must not share a name:
// each would sweep sandboxes that it does not know.
func installation(dir string) string {
	h := fnv.New64a()
	h.Write([]byte(dir))
	return fmt.Sprintf("test-%x", h.Sum64())
}

var readAgent = sync.OnceValues(func() ([]byte, error) { return os.ReadFile(os.Getenv(agentPath)) })

// options are those of a runtime whose files are in dir.
func options(dir string) (gvisor.Options, error) {
	program, err := readAgent()
	return gvisor.Options{
		Path: os.Getenv(runscPath), Platform: os.Getenv("BELLJAR_TEST_PLATFORM"),
		Options: rack.Options{Agent: bytes.NewReader(program), RunDir: dir, Installation: installation(dir)},
	}, err
}

func open(t testing.TB, dir string) *gvisor.Runtime {
	t.Helper()
	o, err := options(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gvisor.New(o)
	if err != nil {
		t.Fatal(err)
	}
	runtimetest.CloseAfter(t, r)
	return r
}

func spec() runtime.Spec {
	return runtime.Spec{
		ID: belljar.NewID(), Root: runtime.Root{Ref: runtime.HostRef}, Limits: belljar.DefaultLimits(),
		Workspace: runtime.Workspace{Bytes: 16 << 20, Inodes: 4096, Exec: true, Medium: runtime.MediumMemory},
	}
}

func TestConformance(t *testing.T) {
	o := runtimetest.Options{UID: 1000, GID: 1000, Isolated: true, Parallel: true, Few: tier.Pick(true, false), Net: os.Getenv(netPath)}
	o.New, o.Restart = runtimetest.Restarting((*testing.T).TempDir, func(t *testing.T, dir string) runtime.Runtime { return open(t, dir) },
		func(*testing.T, runtime.Runtime) {})
	runtimetest.Run(t, o)
}

// run runs a script in a sandbox and returns its output.
func run(t testing.TB, box runtime.Sandbox, script string) string {
	t.Helper()
	out, exit := runtimetest.Execute(t, box.Dial, wire.Exec{
		ID: belljar.NewID(), Argv: []string{"/bin/sh", "-c", script}, UID: 1000, GID: 1000, KillAll: true, Env: []string{"PATH=/usr/bin:/bin"},
	})
	if exit.Code != 0 {
		t.Fatalf("%s: %+v, %q", script, exit, out)
	}
	return out
}
