//go:build linux

package native_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/linux/warden"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/native"
	"github.com/belljar/belljar/internal/runtime/runtimetest"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/tier"
)

// smallMB and smallSpace are the limits of the sandboxes in these tests: small enough to fill on a machine without a real processor.
const (
	smallMB    = 32
	smallSpace = 16
)

func small() runtime.Spec {
	s := spec()
	s.Limits.MemoryMB, s.Workspace.Bytes = smallMB, smallSpace<<20
	return s
}

// hold returns a script that starts a program which holds n MiB of unreclaimable memory.
func hold(n int, script string) string {
	return fmt.Sprintf("dd if=/dev/zero bs=%dM count=1 2>/dev/null | { head -c 1 >/dev/null; %s; }", n, script)
}

// tooMuch allocates more than the limit and its tolerance.
const tooMuch = "dd if=/dev/zero bs=44M count=1 of=/dev/null 2>/dev/null && echo taken"

// Sizes of a program's writes to a file. The warden must see memory grow before a limit is reached, so writers at full speed run in make
// soak.
const (
	calm      = "4k"
	fullSpeed = "64k"
)

// fillTwice fills the workspace to the last byte, frees it and fills it again, in writes of size bs.
func fillTwice(bs string) string {
	return "for i in 1 2; do dd if=/dev/zero of=/workspace/f bs=" + bs +
		" 2>/dev/null && echo no end; wc -c </workspace/f; rm /workspace/f; done"
}

// filledTwice is the output of fillTwice.
var filledTwice = strings.Repeat(strconv.Itoa(smallSpace<<20)+"\n", 2)

// script runs a shell script through an agent.
func script(t *testing.T, dial func(context.Context) (net.Conn, error), text string) (string, wire.Exit) {
	t.Helper()
	return runtimetest.Execute(t, dial, wire.Exec{
		ID: belljar.NewID(), Argv: []string{"/bin/sh", "-c", text}, UID: 1000, GID: 1000, KillAll: true,
		Env: []string{"PATH=/usr/bin:/bin"},
	})
}

// held checks the effect of a memory limit in the sandbox that dial reaches, with files written in writes of size bs.
func held(t *testing.T, bs string, dial func(context.Context) (net.Conn, error)) {
	t.Helper()
	if out, exit := script(t, dial, hold(smallMB*8/10, fillTwice(bs))); out != filledTwice {
		t.Errorf("a full workspace and a program within its limit: %q, %+v", out, exit)
	}
	if out, exit := script(t, dial, tooMuch); out != "" {
		t.Errorf("a program above its limit: %q, %+v", out, exit)
	}
	freed := "dd if=/dev/zero of=/workspace/f bs=" + bs + " 2>/dev/null; rm /workspace/f; dd if=/dev/zero bs=28M count=1 of=/dev/null 2>/dev/null && echo taken; :"
	if out, exit := script(t, dial, hold(smallMB/2, freed)); out != "" {
		t.Errorf("a program that takes what files gave up: %q, %+v", out, exit)
	}
}

// needGroups skips a test if memory has no limit.
func needGroups(t *testing.T, r *native.Runtime) {
	t.Helper()
	caps, err := r.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !caps.Protection(runtime.ProtectMemory).Enforced {
		need.Missing(t, "a limit on memory")
	}
}

// A limit below what programs hold is refused as such. Version 2 of cgroups kills the programs instead.
func TestMemoryHeld(t *testing.T) {
	r := open(t, t.TempDir())
	needGroups(t, r)
	if _, err := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes"); err != nil {
		t.Skip("no cgroup v1 limits memory here")
	}
	box, err := r.Create(t.Context(), small())
	if err != nil {
		t.Fatal(err)
	}
	out, exit := runtimetest.Execute(t, box.Dial, wire.Exec{
		ID: belljar.NewID(), UID: 1000, GID: 1000, Env: []string{"PATH=/usr/bin:/bin"},
		Argv: []string{"/bin/sh", "-c", "mkfifo /tmp/ready; (" + hold(24, "echo >/tmp/ready; exec sleep 1000") + ") >/dev/null 2>&1 & read x </tmp/ready; echo held"},
	})
	if out != "held\n" {
		t.Fatalf("%q, %+v", out, exit)
	}
	if err := box.(runtime.MemoryLimiter).LimitMemory(t.Context(), 8); !errors.Is(err, runtime.ErrMemoryHeld) {
		t.Errorf("a limit of 8 MiB: %v", err)
	}
}

// Programs have their own memory limit, however much files hold, and files have their own sizes, however much programs hold.
func TestMemoryIsThePrograms(t *testing.T) { memoryIsThePrograms(t, calm) }

func memoryIsThePrograms(t *testing.T, bs string) {
	r := open(t, t.TempDir())
	needGroups(t, r)
	for _, life := range []runtime.Lifetime{runtime.LifetimeCreator, runtime.LifetimeDetached} {
		t.Run(string(life), func(t *testing.T) {
			s := small()
			s.Lifetime = life
			box, err := r.Create(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			held(t, bs, box.Dial)
			if out, _ := script(t, box.Dial, "dd if=/dev/zero of=/workspace/f bs=1M count=10 2>/dev/null; echo written"); out != "written\n" {
				t.Errorf("output %q", out)
			}
			u, err := box.Usage(t.Context())
			if err != nil || u.Files == nil || *u.Files < 10<<20 || *u.Files > 12<<20 || *u.PeakFiles < smallSpace<<20 {
				t.Errorf("files hold %+v, %v", u, err)
			}
			if u.PeakMemory == nil || *u.PeakMemory < smallMB<<20 || *u.PeakMemory > (smallMB+8)<<20 || *u.Memory > smallMB<<20 {
				t.Errorf("programs held %+v", u)
			}
		})
	}
	t.Run("claimed", func(t *testing.T) {
		s := small()
		box, err := r.Claim(t.Context(), blank(t, r, s).ID(), s)
		if err != nil {
			t.Fatal(err)
		}
		held(t, bs, box.Dial)
	})
}

// After a daemon is killed, the limits stay in force, exactly as they were.
func TestMemoryIsHeldWithoutADaemon(t *testing.T) { memoryIsHeldWithoutADaemon(t, calm) }

func memoryIsHeldWithoutADaemon(t *testing.T, bs string) {
	dir := t.TempDir()
	needGroups(t, open(t, t.TempDir()))
	t.Setenv("BELLJAR_TEST_SMALL", "1")
	id := runtimetest.Killed(t, dir, runtime.LifetimeDetached)
	held(t, bs, dialer(t, dir, id))
	// The next daemon finds the same warden, which ends with the last that needs it.
	pids := wardensOf(t, dir)
	if len(pids) != 1 {
		t.Fatalf("wardens %v, want one", pids)
	}
	pidfd, err := unix.PidfdOpen(pids[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	r, err := native.New(native.Options{Agent: bytes.NewReader(agentProgram), RunDir: dir, Installation: "test"})
	if err != nil {
		t.Fatal(err)
	}
	box, err := r.Attach(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if again := wardensOf(t, dir); fmt.Sprint(again) != fmt.Sprint(pids) {
		t.Errorf("wardens %v, had %v", again, pids)
	}
	if err := box.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	awaitEnd(t, pidfd)
	if left, err := os.ReadDir(filepath.Join(dir, "warden")); err != nil || len(left) > 0 {
		t.Errorf("the warden has left %v, %v", left, err)
	}
}

// Every thread of the warden has precedence: the loop waits for the others now and then.
func TestWardenHasPrecedence(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	r := open(t, dir)
	needGroups(t, r)
	if _, err := r.Create(t.Context(), small()); err != nil {
		t.Fatal(err)
	}
	for _, pid := range wardensOf(t, dir) {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil || len(tasks) == 0 {
			t.Fatalf("threads %v, %v", tasks, err)
		}
		for _, task := range tasks {
			tid, err := strconv.Atoi(task.Name())
			if err != nil {
				t.Fatal(err)
			}
			attr, err := unix.SchedGetAttr(tid, 0)
			if err == unix.ESRCH {
				continue // it has ended
			}
			if err != nil || attr.Policy != unix.SCHED_RR && attr.Nice != -20 {
				t.Errorf("thread %d: %+v, %v", tid, attr, err)
			}
		}
		return
	}
	t.Error("no warden")
}

// If a hypervisor takes a processor from a virtual machine for a while, limits still follow the files: the warden has a loop on another
// processor.
func TestMemoryWithoutAProcessor(t *testing.T) {
	r := open(t, t.TempDir())
	needGroups(t, r)
	box, err := r.Create(t.Context(), small())
	if err != nil {
		t.Fatal(err)
	}
	occupy(t)
	for range tier.Rounds(t, 3, 10) {
		if out, exit := script(t, box.Dial, hold(smallMB*8/10, fillTwice(calm))); out != filledTwice {
			t.Fatalf("a full workspace and a program within its limit: %q, %+v", out, exit)
		}
	}
}

// occupy blocks one processor after another for all threads of lower precedence, 10 ms each with pauses as long, until the test ends.
func occupy(t *testing.T) {
	t.Helper()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	var each []unix.CPUSet
	for cpu := 0; len(each) < all.Count(); cpu++ {
		if all.IsSet(cpu) {
			var one unix.CPUSet
			one.Set(cpu)
			each = append(each, one)
		}
	}
	if len(each) < 2 {
		t.Skip("needs two processors")
	}
	ready, end := make(chan error), make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		goruntime.LockOSThread() // never unlocked: the thread ends with its precedence
		err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 50}, 0)
		ready <- err
		const turn = 10 * time.Millisecond
		for i := 0; err == nil; i++ {
			_ = unix.SchedSetaffinity(0, &each[i%len(each)])
			for until := time.Now().Add(turn); time.Now().Before(until); {
			}
			select {
			case <-end:
				return
			case <-time.After(turn):
			}
		}
	})
	if err := <-ready; err != nil {
		t.Skipf("needs real-time priority: %v", err)
	}
	t.Cleanup(func() { close(end); done.Wait() })
}

// A killed warden gets a successor that watches the same sandboxes.
func TestMemoryIsHeldByTheNextWarden(t *testing.T) { memoryIsHeldByTheNextWarden(t, calm) }

func memoryIsHeldByTheNextWarden(t *testing.T, bs string) {
	dir := t.TempDir()
	r := open(t, dir)
	needGroups(t, r)
	s := small()
	s.Lifetime = runtime.LifetimeDetached
	box, err := r.Create(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	killWarden(t, dir)
	other := small()
	other.Lifetime = runtime.LifetimeDetached
	if _, err := r.Create(t.Context(), other); err != nil { // returns when the next warden watches both
		t.Fatal(err)
	}
	held(t, bs, box.Dial)
}

// Without a daemon and a warden a limit keeps its value, and the next daemon starts another warden.
func TestMemoryIsHeldWithoutAWarden(t *testing.T) { memoryIsHeldWithoutAWarden(t, calm) }

func memoryIsHeldWithoutAWarden(t *testing.T, bs string) {
	dir := t.TempDir()
	needGroups(t, open(t, t.TempDir()))
	t.Setenv("BELLJAR_TEST_SMALL", "1")
	id := runtimetest.Killed(t, dir, runtime.LifetimeDetached)
	killWarden(t, dir)
	dial := dialer(t, dir, id)
	if out, exit := script(t, dial, tooMuch); out != "" {
		t.Errorf("a program above its limit: %q, %+v", out, exit)
	}
	r := open(t, dir)
	box, err := r.Attach(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	held(t, bs, dial)
	if err := box.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

// killWarden kills the warden of a run folder.
func killWarden(t *testing.T, dir string) {
	t.Helper()
	pids := wardensOf(t, dir)
	if len(pids) != 1 {
		t.Fatalf("wardens %v, want one", pids)
	}
	pidfd, err := unix.PidfdOpen(pids[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, pidfd)
}

// wardensOf are the warden processes of a run folder.
func wardensOf(t *testing.T, dir string) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if path := wardenPath(pid); path != "" && strings.HasPrefix(path, dir+"/") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// wardenPath is the socket of a process that is a warden, "" for any other.
func wardenPath(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	args := strings.Split(string(text), "\x00")
	var config warden.Config
	if len(args) < 3 || args[1] != warden.Command || json.Unmarshal([]byte(args[2]), &config) != nil {
		return ""
	}
	return config.Path
}

// awaitEnd returns when a process has ended.
func awaitEnd(t *testing.T, pidfd int) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, int(prompt.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if n != 1 {
			t.Fatalf("the process lives on: %v", err)
		}
		return
	}
}

// A prepared runtime has one warden for its first sandbox. If it is closed meanwhile, it leaves nothing.
func TestPrepare(t *testing.T) {
	for name, made := range map[string]bool{"used": true, "unused": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r, err := native.New(native.Options{Agent: bytes.NewReader(agentProgram), RunDir: dir, Installation: "test"})
			if err != nil {
				t.Fatal(err)
			}
			needGroups(t, r)
			r.Prepare()
			if made {
				s := small()
				s.Lifetime = runtime.LifetimeCreator
				box, err := r.Create(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				if pids := wardensOf(t, dir); len(pids) != 1 {
					t.Errorf("wardens %v, want one", pids)
				}
				if err := box.Destroy(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if pids := wardensOf(t, dir); len(pids) > 0 {
				t.Errorf("wardens %v are left", pids)
			}
			if left, err := filepath.Glob(filepath.Join(dir, "warden", "*")); err != nil || len(left) > 0 {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}
