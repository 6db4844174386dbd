//go:build linux

package gvisor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
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
	t.Cleanup(func() {
		ids, err := r.List(context.Background())
		for _, id := range ids {
			err = errors.Join(err, r.Remove(context.Background(), id))
		}
		if err := errors.Join(err, r.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func spec() runtime.Spec {
	return runtime.Spec{
		ID: belljar.NewID(), Root: runtime.Root{Ref: runtime.HostRef}, Limits: belljar.DefaultLimits(),
		Workspace: runtime.Workspace{Bytes: 16 << 20, Inodes: 4096, Exec: true, Medium: runtime.MediumMemory},
	}
}

func TestConformance(t *testing.T) {
	dirs := map[runtime.Runtime]string{}
	var mu sync.Mutex
	make := func(t *testing.T, dir string) runtime.Runtime {
		r := open(t, dir)
		mu.Lock()
		defer mu.Unlock()
		dirs[r] = dir
		return r
	}
	runtimetest.Run(t, runtimetest.Options{
		New: func(t *testing.T) runtime.Runtime { return make(t, t.TempDir()) },
		Restart: func(t *testing.T, r runtime.Runtime) runtime.Runtime {
			mu.Lock()
			dir := dirs[r]
			mu.Unlock()
			return make(t, dir)
		},
		UID: 1000, GID: 1000, Isolated: true, Parallel: true, Few: tier.Pick(true, false), Net: os.Getenv(netPath),
	})
}

// run runs a script in a sandbox and returns its output.
func run(t testing.TB, box runtime.Sandbox, script string) string {
	t.Helper()
	p, err := agent.New(box.Dial).Exec(context.Background(), wire.Exec{
		ID: belljar.NewID(), Argv: []string{"/bin/sh", "-c", script}, UID: 1000, GID: 1000, KillAll: true, Env: []string{"PATH=/usr/bin:/bin"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var out strings.Builder
	exit, err := p.Output(context.Background(), func(_ int64, _ wire.Stream, b []byte) error {
		out.Write(b)
		return nil
	})
	if err != nil || exit.Code != 0 {
		t.Fatalf("%s: %+v, %v, %q", script, exit, err, out.String())
	}
	return out.String()
}
