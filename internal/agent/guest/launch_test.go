//go:build linux

package guest_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
)

// leased makes a program whose execve blocks, because the file's owner holds a lease on it.
func leased(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "true")
	if err := os.WriteFile(name, []byte("#!/bin/true\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("this file system has no leases (%v): births that hang are not tested", err)
	}
	return name
}

// A command that is blocked in its execve can still time out, with the same status as one that has started. The timeout leaves a busy machine
// the time to get there.
func TestTimeoutOfABirth(t *testing.T) {
	modes(t, func(t *testing.T, config func(*testing.T) guest.Config) {
		h := begin(t, config(t))
		l := h.exec(wire.Exec{ID: "a", Argv: []string{leased(t)}, UID: os.Getuid(), GID: os.Getgid(), TimeoutMS: 500})
		l.started()
		if exit := l.exit(); exit.Cause != wire.CauseTimeout || exit.Signal != int(unix.SIGTERM) {
			t.Errorf("exit %+v", exit)
		}
		after := h.exec(h.sh("b", "exit 3")) // the next one starts normally
		after.started()
		if exit := after.exit(); exit.Code != 3 {
			t.Errorf("the next: %+v", exit)
		}
	})
}

// A command that does not end by TERM has its grace, too: here its process is stopped.
func TestGraceOfABirth(t *testing.T) {
	h := begin(t, guest.Config{})
	cwd := t.TempDir()
	const timeout, grace = 500, 1500
	l := h.exec(wire.Exec{ID: "a", Argv: []string{leased(t)}, Cwd: cwd, UID: os.Getuid(), GID: os.Getgid(), TimeoutMS: timeout, GraceMS: grace})
	for stopped := false; !stopped; {
		all, _ := filepath.Glob("/proc/[0-9]*/cwd")
		for _, link := range all {
			if at, _ := os.Readlink(link); at == cwd {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
				stopped = unix.Kill(pid, unix.SIGSTOP) == nil
			}
		}
	}
	l.started()
	if exit := l.exit(); exit.Cause != wire.CauseTimeout || exit.Signal != int(unix.SIGKILL) || exit.WallMS < timeout+grace {
		t.Errorf("exit %+v", exit)
	}
}

// Closing an agent does not wait for a blocked execve.
func TestCloseEndsABirth(t *testing.T) {
	h := begin(t, guest.Config{})
	name := leased(t)
	l := h.exec(wire.Exec{ID: "a", Argv: []string{name}, UID: os.Getuid(), GID: os.Getgid()})
	for born := false; !born; { // the agent has accepted the command, but not replied yet
		info := h.ask(wire.Request{Op: wire.OpPing}).reply().Info
		born = info != nil && info.Execs == 1
	}
	h.agent.Close()
	l.conn.Close()
}
