package docker_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/docker"
	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/dockerd"
	"github.com/belljar/belljar/test/tier"
)

// runsc is gVisor's program as make gvisor builds it; the test is skipped if it is missing.
func runsc(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../../bin/belljar-runsc")
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil && build.Prepared() {
		t.Fatalf("%v; make test builds it", err)
	}
	if err != nil {
		t.Skip("bin/belljar-runsc is not built; make gvisor does that")
	}
	return path
}

// With gVisor as the engine's OCI runtime, a sandbox has a kernel of its own. The isolation class states that, that
// kernel enforces the limits, and its threads do not count as the sandbox's processes.
func TestRunsc(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	engine := dockerd.New(t, "--add-runtime", "gvisor="+runsc(t))
	installation := name()
	r := open(t, docker.Options{Host: engine.Host(), OCIRuntime: "gvisor", Installation: installation})
	caps, err := r.Test(within(t, patience))
	if err != nil || !caps.Available || caps.Isolation != runtime.IsolationUserKernel || caps.OCIRuntime != "gvisor" || caps.OOMScope != "sandbox" {
		t.Fatalf("%+v, %v", caps, err)
	}
	s := detached(spec(engine.Busybox(t)))
	s.Limits.MemoryMB = 64
	s.Limits.Pids, s.Require, s.Isolation = 20, []string{runtime.ProtectPids, runtime.ProtectMemory}, runtime.IsolationUserKernel
	create(t, r, s)
	if err := r.Close(); err != nil { // the next process reattaches
		t.Fatal(err)
	}
	r = open(t, docker.Options{Host: engine.Host(), OCIRuntime: "gvisor", Installation: installation})
	box, err := r.Attach(within(t, patience), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	out, exit := run(t, box, `uname -r; id -G | wc -w; grep -E "CapEff|CapBnd" /proc/self/status; tail -n +3 /proc/net/dev | cut -d: -f1
		touch /bin/x 2>/dev/null && echo writable; echo x >/workspace/x && cat /workspace/x`)
	want := "4.19.0-gvisor\n1\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n    lo\nx\n"
	if exit.Code != 0 || strings.ReplaceAll(out, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("%q, %+v", out, exit)
	}
	if out, exit := run(t, box, "i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); done; echo all of them"); exit.Code == 0 || strings.Contains(out, "all of them") {
		t.Errorf("a hundred processes: %q, %+v", out, exit)
	}
	if out, _ := run(t, box, "echo still here"); out != "still here\n" {
		t.Errorf("%q", out)
	}
	u, err := box.Usage(within(t, patience))
	if err != nil || u.Memory == nil || u.Pids != nil || u.PeakPids != nil || !strings.HasSuffix(u.Sources["memory"], "included") {
		t.Errorf("%+v, %v", u, err)
	}
	hog := start(t, box, "tail /dev/zero")
	if _, err := hog.Output(within(t, patience), func(int64, wire.Stream, []byte) error { return nil }); err == nil {
		t.Error("a hog without an end")
	}
	// Engines learn of the end and of its reason in different ways, and may report only one of them.
	if end, err := box.Wait(within(t, patience)); err != nil || end.Reason != runtime.ExitOOM && end.Reason != runtime.ExitKilled {
		t.Errorf("%+v, %v", end, err)
	}
	if u, err := box.Usage(within(t, patience)); !errors.Is(err, runtime.ErrGone) || u.CPU != nil {
		t.Errorf("after the end: %+v, %v", u, err)
	}
}
