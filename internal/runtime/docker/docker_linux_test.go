package docker_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/docker"
	"github.com/belljar/belljar/internal/runtime/runtimetest"
	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/dockerd"
	testimage "github.com/belljar/belljar/test/image"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/tier"
)

func TestMain(m *testing.M) { os.Exit(dockerd.Main(m)) }

func agent(string) (io.ReadCloser, error) {
	text, err := build.AgentProgram()
	return io.NopCloser(bytes.NewReader(text)), err
}

// patience limits each operation of an engine on a slow and busy machine.
const patience = 10 * time.Minute

// open makes a runtime, which is closed and cleaned up at the end of the test.
func open(t testing.TB, o docker.Options) *docker.Runtime {
	t.Helper()
	o.Agent = agent
	if o.Patience == 0 {
		o.Patience = patience
	}
	r, err := docker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	runtimetest.CloseAfter(t, r)
	return r
}

func TestConformance(t *testing.T) {
	t.Parallel()
	engine := dockerd.Start(t)
	image := engine.Busybox(t)
	net, err := build.Net(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := runtimetest.Options{
		RestartKills: true, AgentUser: true, Parallel: true, Few: tier.Pick(true, false), Short: tier.Pick(true, false), Isolated: true, CopiesImages: true, Root: runtime.Root{Ref: image, Name: image}, Net: net,
	}
	o.New, o.Restart = runtimetest.Restarting(func(*testing.T) string { return name() }, func(t *testing.T, installation string) runtime.Runtime {
		return open(t, docker.Options{Host: engine.Host(), Installation: installation})
	}, func(t *testing.T, r runtime.Runtime) {
		if err := r.(*docker.Runtime).Close(); err != nil {
			t.Error(err)
		}
	})
	runtimetest.Run(t, o)
	t.Run("kernels", func(t *testing.T) { // the suite's image has no interpreters
		tier.Soak(t) // the image has Node too: the engine takes seconds to read it
		t.Parallel()
		link, err := os.Readlink("/usr/bin/python3")
		if err != nil {
			need.Missing(t, "Debian's Python: %v", err)
		}
		root, err := os.Open(testimage.Programs(t, "/usr/bin/node", "/usr/bin/python3", filepath.Join("/usr/lib", link)))
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		o := o
		o.Root = runtime.Root{Ref: "belljar-test/interpreters:latest", Name: "belljar-test/interpreters:latest"}
		engine.Import(t, o.Root.Ref, root, `CMD ["sh"]`)
		runtimetest.Kernels(t, o)
	})
}
