//go:build linux

package cgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// box makes a group on a machine with only cgroup v2, to simulate a container or a user's session.
func box(t *testing.T) (dir string, fd int) {
	t.Helper()
	h := realHost(t)
	hi := h.hierarchies[0]
	if hi.version != 2 || len(h.hierarchies) > 1 {
		t.Skip("needs cgroup v2 alone; the machine of test/vm has it")
	}
	for _, controller := range hi.controllers {
		if err := h.enable(hi.parent, controller); err != nil {
			t.Fatal(err)
		}
	}
	dir = filepath.Join(hi.parent, "box-"+t.Name())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := h.kernel.remove(ctx, 2, dir); err != nil {
			t.Error(err)
		}
	})
	fd, err := open(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return dir, fd
}

// nested discovers what its process can use, and lets a program exceed its memory limit there. It prints the folder.
func nested(kind string) error {
	if kind == "container" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("make mounts private: %w", err)
		}
		if err := unix.Unmount("/sys/fs/cgroup", unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount the host's cgroup2: %w", err)
		}
		if err := unix.Mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""); err != nil {
			return fmt.Errorf("mount cgroup2: %w", err)
		}
	}
	h, err := Discover(Options{})
	if err != nil {
		return err
	}
	fmt.Println(capabilities(h))
	g, err := h.Create(Spec{Installation: "n", ID: "s", Limits: Limits{Memory: 16 << 20, Pids: 16, CPU: 1}, Owner: &Owner{UID: 1 << 30, GID: 1 << 30}})
	if err != nil {
		return err
	}
	defer h.Sweep("n")
	defer g.Remove(context.Background())
	fmt.Println("made", g.Folders()[0].Path, "delegated", g.ExecDir() >= 0)
	c := exec.Command("/proc/self/exe", "-tiny", "allocate", "64")
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD(), Pdeathsig: syscall.SIGKILL}
	var exit *exec.ExitError
	if err := c.Run(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		return fmt.Errorf("the hog ended with %v", err)
	}
	fmt.Println("oom", *g.Usage().OOMKills)
	return nil
}

func runNested(t *testing.T, kind string, attr *syscall.SysProcAttr) string {
	t.Helper()
	attr.Pdeathsig, attr.UseCgroupFD = syscall.SIGKILL, true
	c := exec.Command("/proc/self/exe", "-tiny", "nested", kind)
	c.SysProcAttr = attr
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, os.Stderr
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return out.String()
}

func TestRealContainerWithAPrivateCgroup(t *testing.T) {
	dir, fd := box(t)
	got := runNested(t, "container", &syscall.SysProcAttr{CgroupFD: fd, Unshareflags: syscall.CLONE_NEWNS | unix.CLONE_NEWCGROUP})
	want := "cgroup2 memory.max, cgroup2 pids.max, cgroup2 cpu.max\nmade /sys/fs/cgroup/belljar/n/s delegated true\noom 1\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !exists(filepath.Join(dir, initName)) {
		t.Error("the container's processes have no leaf of their own")
	}
}

func TestRealDelegationToAUser(t *testing.T) {
	const uid = 4242
	dir, _ := box(t)
	// Like systemd's user@.service: the user owns a folder without processes, and runs below it.
	h := realHost(t)
	for _, controller := range []string{Memory, Pids, CPU} {
		if err := h.enable(dir, controller); err != nil {
			t.Fatal(err)
		}
	}
	service := filepath.Join(dir, "service")
	session := filepath.Join(service, "session")
	for _, d := range []string{service, session} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"} {
			if err := os.Chown(filepath.Join(d, name), uid, uid); err != nil {
				t.Fatal(err)
			}
		}
	}
	fd, err := open(session, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	got := runNested(t, "user", &syscall.SysProcAttr{CgroupFD: fd, Credential: &syscall.Credential{Uid: uid, Gid: uid}})
	want := "cgroup2 memory.max, cgroup2 pids.max, cgroup2 cpu.max\nmade " + service + "/belljar/n/s delegated false\noom 1\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if strings.Contains(got, initName) {
		t.Error("the user's processes were moved without need")
	}
}
