//go:build linux

package cgroup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/test/need"
)

// realHost returns the machine's own cgroups; without cgroups it skips the test, with the reason in one line.
func realHost(t testing.TB) *Host {
	t.Helper()
	h, err := Discover(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range h.Capabilities() {
		if !c.Enforced {
			need.Missing(t, "cgroups of our own: %s: %s", c.Name, c.Hint)
		}
	}
	return h
}

// installation returns a name unique to the test, so that its bound and its watch affect no other test.
func installation(t testing.TB) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	return "test-" + strconv.Itoa(os.Getpid()) + "-" + name + "/kind"
}

func create(t testing.TB, h *Host, s Spec) *Group {
	t.Helper()
	s.Installation = installation(t)
	if s.ID == "" {
		s.ID = strings.NewReplacer("/", "-", ".", "-").Replace(t.Name())
	}
	g, err := h.Create(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := g.Remove(ctx); err != nil {
			t.Error(err)
		}
		h.Sweep(installation(t))
	})
	return g
}

// command is a small program that starts in the cgroup2 folder and enters the v1 ones before its execve.
func command(t *testing.T, g *Group, what string, args ...any) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	line := `for fd in ` + strings.Trim(fmt.Sprint(sequence(3, len(g.TaskFDs()))), "[]") + `; do eval "echo 0 >&$fd"; done; exec "$0" -tiny "$@"`
	argv := []string{"-c", line, self, what}
	for _, a := range args {
		argv = append(argv, fmt.Sprint(a))
	}
	c := exec.Command("/bin/sh", argv...)
	c.Env = append(os.Environ(), "GOMAXPROCS=2") // threads count as processes: have no more of them on a larger machine
	c.Stderr = os.Stderr
	for _, fd := range g.TaskFDs() {
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(dup), "tasks")
		t.Cleanup(func() { f.Close() })
		c.ExtraFiles = append(c.ExtraFiles, f)
	}
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if g.FD() >= 0 {
		c.SysProcAttr.UseCgroupFD, c.SysProcAttr.CgroupFD = true, g.FD()
	}
	return c
}

func sequence(from, n int) []int {
	var list []int
	for i := range n {
		list = append(list, from+i)
	}
	return list
}

func TestMemoryLimitKillsOneProcess(t *testing.T) {
	h := realHost(t)
	g := create(t, h, Spec{Limits: Limits{Memory: 32 << 20}})
	bystander := command(t, g, "wait")
	stdin, err := bystander.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	ready, err := bystander.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(ready).ReadString('\n'); err != nil {
		t.Fatalf("bystander printed %q: %v", line, err)
	}

	hog := command(t, g, "allocate", 64)
	err = hog.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("64 MiB in a group of 32 ended with %v, want SIGKILL", err)
	}
	u := g.Usage()
	if u.OOMKills == nil || *u.OOMKills != 1 {
		t.Errorf("OOM kills %s, want 1 (%s)", text(u.OOMKills), u.Sources["oom_kills"])
	}
	// The kernel lets a group exceed its limit by a few pages for a moment.
	if u.PeakMemory != nil && (*u.PeakMemory < 16<<20 || *u.PeakMemory > 33<<20) {
		t.Errorf("peak memory %d, want it near the limit", *u.PeakMemory)
	}
	stdin.Close()
	if err := bystander.Wait(); err != nil {
		t.Errorf("the bystander died with the hog: %v", err)
	}
}

func TestMemoryWithinTheLimitIsLeftAlone(t *testing.T) {
	g := create(t, realHost(t), Spec{Limits: Limits{Memory: 64 << 20}})
	if err := command(t, g, "allocate", 16).Run(); err != nil {
		t.Fatal(err)
	}
	if u := g.Usage(); *u.OOMKills != 0 || u.PeakMemory != nil && *u.PeakMemory < 16<<20 {
		t.Errorf("OOM kills %s, peak %s", text(u.OOMKills), text(u.PeakMemory))
	}
}

func TestPidsLimitRefusesForks(t *testing.T) {
	g := create(t, realHost(t), Spec{Limits: Limits{Pids: 24}})
	out, err := command(t, g, "fork", 60).Output()
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil || n < 1 || n > 23 {
		t.Errorf("%q children started, want fewer than the 24 processes allowed", out)
	}
	u := g.Usage()
	if u.PidsRefused == nil || *u.PidsRefused < 1 {
		t.Errorf("refused %s, want at least 1", text(u.PidsRefused))
	}
	if u.PeakPids != nil && *u.PeakPids > 24 {
		t.Errorf("peak of %d processes", *u.PeakPids)
	}
}

func TestCPULimitThrottles(t *testing.T) {
	g := create(t, realHost(t), Spec{Limits: Limits{CPU: 0.2}})
	before := time.Now()
	if err := command(t, g, "spin", 1000).Run(); err != nil {
		t.Fatal(err)
	}
	wall, used := time.Since(before), g.Usage().CPU
	if used == nil || *used <= 0 || used.Seconds() > 0.2*wall.Seconds()+0.1 {
		t.Errorf("used %v of %v with a fifth of a core", used, wall)
	}
}

func TestRemoveWaitsForTheLastProcess(t *testing.T) {
	h := realHost(t)
	g := create(t, h, Spec{})
	c := command(t, g, "wait")
	stdin, _ := c.StdinPipe()
	stdout, _ := c.StdoutPipe()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	bufio.NewReader(stdout).ReadString('\n')

	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := h.Remove(short, installation(t), t.Name()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("removing a group in use: %v, want the deadline", err)
	}
	done := make(chan error)
	go func() { done <- h.Remove(context.Background(), installation(t), t.Name()) }()
	stdin.Close()
	io.Copy(io.Discard, stdout)
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := h.Open(installation(t), t.Name()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after removal: %v", err)
	}
	if err := h.Remove(context.Background(), installation(t), t.Name()); err != nil {
		t.Errorf("second removal: %v", err)
	}
}

func TestKillEndsEverythingInTheGroup(t *testing.T) {
	g := create(t, realHost(t), Spec{})
	c := command(t, g, "wait")
	stdin, _ := c.StdinPipe()
	defer stdin.Close()
	stdout, _ := c.StdoutPipe()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	bufio.NewReader(stdout).ReadString('\n')
	again, err := Open(g.Folders()) // like another process after a restart
	if err != nil {
		t.Fatal(err)
	}
	killed, err := again.Kill()
	if err != nil {
		t.Fatal(err)
	}
	if !killed {
		if g.FD() >= 0 && exists(fmt.Sprintf("/proc/self/fd/%d/cgroup.kill", g.FD())) {
			t.Error("the kernel can kill a group, and Kill says it cannot")
		}
		c.Process.Kill()
	}
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v, want SIGKILL", err)
	}
}

func TestNamesAreUniqueAndListed(t *testing.T) {
	h := realHost(t)
	create(t, h, Spec{ID: "one"})
	create(t, h, Spec{ID: "two"})
	if _, err := h.Create(Spec{Installation: installation(t), ID: "one"}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second group of a name: %v", err)
	}
	ids, err := h.List(installation(t))
	if err != nil || strings.Join(ids, " ") != "one two" {
		t.Errorf("list %q, %v", ids, err)
	}
}

// The owner of a group makes children in it and starts processes there, and can do nothing above it.
func TestOwnerMakesChildren(t *testing.T) {
	h := realHost(t)
	const uid = 1879048192 + 1000
	g := create(t, h, Spec{Owner: &Owner{UID: uid, GID: uid}})
	if g.ExecDir() < 0 {
		t.Skip("no cgroup2 to delegate here")
	}
	dir := g.folders[0].Path
	var st unix.Stat_t
	if err := unix.Fstatat(g.ExecDir(), "..", &st, 0); err != nil {
		t.Fatal(err)
	}
	var self unix.Stat_t
	if err := unix.Fstat(g.ExecDir(), &self); err != nil {
		t.Fatal(err)
	}
	if st.Ino != self.Ino {
		t.Error("the parent folder can be reached from ExecDir")
	}

	file := os.NewFile(uintptr(mustDup(t, g.ExecDir())), "exec")
	defer file.Close()
	// A shell as the owner, in the group: it makes a child, moves into it, and tries the group above.
	script := `cd /proc/self/fd/3 && mkdir run && { mkdir run/deep 2>/dev/null; true; } && echo $$ > run/cgroup.procs && cat /proc/self/cgroup
	(mkdir ` + filepath.Dir(dir) + `/escape; echo 0 > ` + filepath.Dir(dir) + `/cgroup.procs) 2>/dev/null
	echo 1 > ` + dir + `/cgroup.max.descendants`
	c := exec.Command("/bin/sh", "-c", script)
	c.ExtraFiles = []*os.File{file}
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD(), Pdeathsig: syscall.SIGKILL,
		Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := c.CombinedOutput()
	if !strings.Contains(string(out), t.Name()+"/run\n") {
		t.Errorf("the owner's process is not in its child: %v\n%s", err, out)
	}
	if err == nil {
		t.Error("the owner changed what bounds it")
	}
	if exists(filepath.Join(filepath.Dir(dir), "escape")) {
		t.Error("the owner made a group next to its own")
	}
	if exists(filepath.Join(dir, "run", "deep")) {
		t.Error("the owner nested groups, whose paths have no limit")
	}
	if !exists(filepath.Join(dir, "run")) {
		t.Error("no child for Remove to remove")
	}
}

func mustDup(t *testing.T, fd int) int {
	t.Helper()
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return dup
}

func text(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return strconv.FormatInt(*n, 10)
}
