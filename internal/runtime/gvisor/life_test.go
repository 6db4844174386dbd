//go:build linux

package gvisor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/gvisor"
	"github.com/belljar/belljar/internal/runtime/runtimetest"
	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/tier"
)

// Root can enforce every protection that this runtime knows; otherwise a test of one proves nothing.
func TestRootEnforcesEverything(t *testing.T) {
	need.Root(t)
	caps, err := open(t, t.TempDir()).Test(context.Background())
	if err != nil || !caps.Available || caps.Isolation != runtime.IsolationUserKernel || caps.Version == "" {
		t.Fatalf("not available: %+v, %v", caps, err)
	}
	for _, p := range caps.Protections {
		if !p.Enforced && p.Name != runtime.ProtectLandlock {
			t.Errorf("%s is not enforced: %s", p.Name, p.Hint)
		}
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
	runtimetest.Ended(t, open(t, dir), filepath.Join(dir, gvisor.Name, installation(dir), id+".lock"))
	nothingLeft(t, dir)
}

// abandon is the daemon of [runtimetest.Killed].
func abandon(id string) error {
	o, err := options(os.Getenv("BELLJAR_TEST_DIR"))
	if err != nil {
		return err
	}
	r, err := gvisor.New(o)
	if err != nil {
		return err
	}
	s := spec()
	s.ID, s.Lifetime = id, runtime.Lifetime(os.Getenv("BELLJAR_TEST_LIFE"))
	if _, err := r.Create(context.Background(), s); err != nil {
		return err
	}
	return syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// If any of gVisor's processes is killed from outside, all of the sandbox ends, reports why, and leaves nothing.
func TestKilledFromOutside(t *testing.T) {
	for name, victim := range map[string]string{"keep": "belljar-agent", "sentry": "runsc-sandbox", "gofer": "runsc-gofer"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := open(t, dir)
			box, err := r.Create(context.Background(), spec())
			if err != nil {
				t.Fatal(err)
			}
			pids := processes(t, box.ID(), victim)
			if len(pids) == 0 {
				t.Fatalf("no %s among its processes", victim)
			}
			for _, pid := range pids {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			if name == "gofer" { // the sentry notices only when it needs the gofer
				go func() {
					p, err := agent.New(box.Dial).Exec(context.Background(), sh("ls -R /usr/share >/dev/null"))
					if err == nil {
						p.Close()
					}
				}()
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			exit, err := box.Wait(ctx)
			if strings.HasSuffix(exit.Detail, ":") {
				t.Errorf("%q ends in the middle", exit.Detail)
			}
			if err != nil || exit.Reason != runtime.ExitKilled && !(name == "gofer" && exit.Reason == runtime.ExitAgent) {
				t.Errorf("%+v, %v", exit, err)
			}
			if left := processes(t, box.ID(), ""); len(left) > 0 {
				t.Errorf("%d processes outlive it", len(left))
			}
			if err := box.Destroy(context.Background()); err != nil {
				t.Error(err)
			}
			nothingLeft(t, dir)
		})
	}
}

// cgroups returns files of a sandbox's cgroup, by the end of their path, one for each hierarchy that has them.
func cgroups(t *testing.T, id, file string) (files []string) {
	t.Helper()
	var err error
	for depth := 2; depth <= 6 && len(files) == 0 && err == nil; depth++ { // deep patterns match many folders, and all files are at one depth
		files, err = filepath.Glob("/sys/fs/cgroup" + strings.Repeat("/*", depth) + "/" + id + "/" + file)
	}
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// processes returns the pids in a sandbox's cgroup whose first argument begins with name.
func processes(t *testing.T, id, name string) (pids []int) {
	t.Helper()
	seen := map[int]bool{}
	files := cgroups(t, id, "cgroup.procs")
	if len(files) == 0 {
		need.Missing(t, "a cgroup that tells which processes are whose")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(text)) {
			var pid int
			fmt.Sscan(field, &pid)
			args, _ := os.ReadFile("/proc/" + field + "/cmdline")
			if !seen[pid] && (name == "" || bytes.HasPrefix(args, []byte(name))) {
				seen[pid] = true
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// The next process sweeps the remains of a killed creator.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	box, err := r.Create(context.Background(), spec())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, gvisor.Name, installation(dir), belljar.NewID()), 0o700); err != nil {
		t.Fatal(err)
	}
	n, err := r.Sweep(context.Background())
	if n != 1 || err != nil {
		t.Errorf("swept %d, %v; want the one leftover", n, err)
	}
	if n, err := r.SweepUntraced(context.Background()); n != 0 || err != nil {
		t.Errorf("swept %d, %v; everything has its traces", n, err)
	}
	if n, err := r.SweepOthers(context.Background()); n != 0 || err != nil {
		t.Errorf("swept %d, %v; there are no others", n, err)
	}
	if _, err := agent.New(box.Dial).Ping(context.Background()); err != nil {
		t.Errorf("the living sandbox: %v", err)
	}
}

// A sandbox whose files were removed is found by its cgroups.
func TestSweepUntraced(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	box, err := r.Create(context.Background(), spec())
	if err != nil {
		t.Fatal(err)
	}
	if len(processes(t, box.ID(), "")) == 0 {
		t.Fatal("its cgroups have no processes")
	}
	if err := os.RemoveAll(filepath.Join(dir, gvisor.Name)); err != nil {
		t.Fatal(err)
	}
	if n, err := r.SweepUntraced(context.Background()); n != 1 || err != nil {
		t.Fatalf("swept %d, %v; want 1", n, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := box.Wait(ctx); err != nil {
		t.Error(err)
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
		"no such image":       {func(s *runtime.Spec) { s.Root = runtime.Root{Dir: "/no/such/image"} }, "image"},
		"an engine's image":   {func(s *runtime.Spec) { s.Root = runtime.Root{Name: "python"} }, "image"},
		"no workspace":        {func(s *runtime.Spec) { s.Workspace.Bytes = 0 }, "mount"},
		"a network":           {func(s *runtime.Spec) { s.Network.Mode = "bridge" }, "network"},
		"a disk":              {func(s *runtime.Spec) { s.Workspace.Medium = runtime.MediumDisk }, "mount"},
		"a wall unheard of":   {func(s *runtime.Spec) { s.Require = []string{"moat"} }, "moat"},
		"landlock":            {func(s *runtime.Spec) { s.Require = []string{runtime.ProtectLandlock} }, "landlock"},
		"an image of nothing": {func(s *runtime.Spec) { s.Root = runtime.Root{Dir: "/proc/self/mounts"} }, "image"},
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

// A Create that is cancelled at any point leaves nothing.
func TestCancelLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	for _, after := range []int{0, 2, 5, 10, 20, 30, 50, 80, 120, 200} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(after)*time.Millisecond)
		box, err := r.Create(ctx, spec())
		cancel()
		if err == nil {
			err = box.Destroy(context.Background())
			if err != nil {
				t.Error(err)
			}
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %d ms: %v", after, err)
		}
		nothingLeft(t, dir)
	}
}

// A sandbox that is removed while it is made does not come into being.
func TestRemoveDuringCreate(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	s := spec()
	type birth struct {
		box runtime.Sandbox
		err error
	}
	made := make(chan birth, 1)
	go func() {
		box, err := r.Create(context.Background(), s)
		made <- birth{box, err}
	}()
	for ids, err := r.List(context.Background()); len(ids) == 0; ids, err = r.List(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	if err := r.Remove(context.Background(), s.ID); err != nil {
		t.Error(err)
	}
	if one := <-made; one.err == nil {
		// Remove came too late to prevent the creation, and removed the result.
		if exit, err := one.box.Wait(context.Background()); err != nil || exit.Reason != runtime.ExitDestroyed {
			t.Errorf("it ended with %+v, %v", exit, err)
		}
	}
	nothingLeft(t, dir)
}

// Several sandboxes can be made simultaneously, and none twice.
func TestSomeAtOnce(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s := spec()
			box, err := r.Create(context.Background(), s)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := r.Create(context.Background(), s); err == nil {
				t.Error("a second sandbox of the same id was made")
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

// The number of files is capped, not only their size.
func TestInodes(t *testing.T) {
	r := open(t, t.TempDir())
	s := spec()
	s.Workspace.Inodes, s.Limits.Inodes = 20, 30
	box, err := r.Create(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	got := run(t, box, `for d in /workspace /tmp /run /dev/shm; do cd $d; for i in $(seq 1 40); do echo >f$i || break; done 2>/dev/null; ls | wc -l; done`)
	if got != "19\n29\n29\n29\n" {
		t.Errorf("%q", got)
	}
}

// A folder that may be read but not searched can be listed, as on Linux, also by a program that follows no links.
func TestListsWithoutSearch(t *testing.T) {
	box, err := open(t, t.TempDir()).Create(t.Context(), spec())
	if err != nil {
		t.Fatal(err)
	}
	defer box.Destroy(context.Background())
	if out := run(t, box, "mkdir d && touch d/x && chmod 444 d && find d"); out != "d\nd/x\n" {
		t.Errorf("%q", out)
	}
}

// A program that is not belljar-runsc is reported, and no sandbox is made with it.
func TestProgramIsMissing(t *testing.T) {
	other, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"nothing": "/no/such/runsc", "a script": "/etc/passwd", "another program": other} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o, err := options(dir)
			if err != nil {
				t.Fatal(err)
			}
			o.Path = path
			r, err := gvisor.New(o)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			caps, err := r.Test(context.Background())
			if err != nil || caps.Available || len(caps.Reasons) == 0 || !strings.Contains(caps.Reasons[0].Hint, "make gvisor") {
				t.Errorf("%+v, %v", caps, err)
			}
			if _, err := r.Create(context.Background(), spec()); err == nil {
				t.Error("a sandbox was made")
			}
			nothingLeft(t, dir)
		})
	}
}

// nothingLeft checks that no trace of a sandbox is on disk.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, gvisor.Name, installation(dir)))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".agent-") {
			t.Errorf("left over: %s", e.Name())
		}
	}
}

// The test as an ordinary user with subordinate ids: enough to know that every step is allowed, and more in make soak. The user exists only in
// a mount namespace in which this binary runs again.
func TestRootless(t *testing.T) {
	need.Root(t)
	for _, program := range []string{"newuidmap", "unshare", "setpriv"} {
		need.Program(t, program)
	}
	const id, subordinate, name = 61502, 1_946_157_056, "belljar-gvisor"
	dir, err := os.MkdirTemp("", "belljar-rootless-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for from, to := range map[string]string{os.Args[0]: "gvisor.test", os.Getenv(runscPath): "belljar-runsc", os.Getenv(agentPath): "belljar-agent", os.Getenv(netPath): "net", os.Getenv(netPath) + build.Musl: "net" + build.Musl} {
		text, err := os.ReadFile(from)
		if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(to, build.Musl) {
			continue
		}
		to = filepath.Join(dir, to)
		if err = errors.Join(err, os.WriteFile(to, text, 0o755), os.Chmod(to, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	home := filepath.Join(dir, "home")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(home, 0o755), os.Chmod(home, 0o755), os.Chown(home, id, id)); err != nil {
		t.Fatal(err)
	}
	for file, line := range map[string]string{
		"passwd": fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh\n", name, id, id, home), "group": fmt.Sprintf("%s:x:%d:\n", name, id),
		"subuid": fmt.Sprintf("%s:%d:%d\n", name, subordinate, 65536*16), "subgid": fmt.Sprintf("%s:%d:%d\n", name, subordinate, 65536*16),
	} {
		text, err := os.ReadFile("/etc/" + file)
		if err != nil {
			need.Missing(t, "%v (uidmap)", err)
		}
		file = filepath.Join(dir, file)
		if err := errors.Join(os.WriteFile(file, append(text, line...), 0o644), os.Chmod(file, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	script := fmt.Sprintf(`for f in passwd group subuid subgid; do mount --bind %s/$f /etc/$f || exit; done
		exec setpriv --reuid %d --regid %d --clear-groups %s/gvisor.test "$@"`, dir, id, id, dir)
	tests := tier.Pick("TestConformance/^(contract|exec)$|TestFailure|TestSweep$",
		"TestConformance/^(contract|exec|files|protections|relay)$|TestSnapshot|TestPause|TestFailure|TestSweep$")
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-ec", script, "sh", "-test.v", "-test.timeout=35m",
		"-test.run="+tests)
	cmd.Dir = home
	cmd.Env = []string{
		"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + home, "TMPDIR=" + home,
		runscPath + "=" + filepath.Join(dir, "belljar-runsc"), agentPath + "=" + filepath.Join(dir, "belljar-agent"),
		netPath + "=" + filepath.Join(dir, "net"),
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if passed := bytes.Count(out, []byte("--- PASS: ")); passed < tier.Pick(25, 30) {
		t.Errorf("only %d tests passed:\n%s", passed, out)
	}
}
