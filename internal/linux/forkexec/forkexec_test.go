//go:build linux

package forkexec_test

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
)

func wait(t testing.TB, c forkexec.Child) unix.WaitStatus {
	t.Helper()
	var status unix.WaitStatus
	if _, err := unix.Wait4(c.Pid, &status, 0, nil); err != nil {
		t.Fatal(err)
	}
	unix.Close(c.PidFD)
	return status
}

// run starts a program and waits for its end.
func run(t testing.TB, p *forkexec.Program, o forkexec.Options) (pid int, status unix.WaitStatus) {
	t.Helper()
	c, err := p.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	return c.Pid, wait(t, c)
}

func TestExec(t *testing.T) {
	p := forkexec.New()
	p.Exec("/bin/sh", []string{"sh", "-c", "exit 7"}, nil)
	if _, s := run(t, p, forkexec.Options{}); s.ExitStatus() != 7 {
		t.Errorf("status %v, want exit 7", s)
	}
}

func TestFailureNamesItsStep(t *testing.T) {
	p := forkexec.New()
	p.Step("first")
	p.Call(unix.SYS_GETPID)
	p.Step("second")
	p.Call(unix.SYS_CHDIR, p.Str("/no/such/folder"))
	p.Exec("/bin/true", []string{"true"}, nil)
	_, err := p.Start(forkexec.Options{})
	var e *forkexec.Error
	if !errors.As(err, &e) || e.Step != "second" || e.Errno != unix.ENOENT {
		t.Errorf("got %v, want second: ENOENT", err)
	}
}

func TestResultsTolerateAndSkip(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := forkexec.New()
	fd := p.Open(unix.SYS_DUP, forkexec.Int(int(w.Fd())))
	p.Call(unix.SYS_WRITE, fd, p.Str("a"), forkexec.Int(1))
	p.Call(unix.SYS_CHDIR, p.Str("/no/such/folder"))
	p.UnlessError(func() { p.Call(unix.SYS_WRITE, fd, p.Str("b"), forkexec.Int(1)) }, unix.ENOENT)
	p.Call(unix.SYS_WRITE, fd, p.Str("c"), forkexec.Int(1))
	p.Exec("/bin/true", []string{"true"}, nil)
	run(t, p, forkexec.Options{})
	w.Close()
	buf := make([]byte, 8)
	n, _ := r.Read(buf)
	if got := string(buf[:n]); got != "ac" {
		t.Errorf("child wrote %q, want ac", got)
	}
}

func TestSyncRunsInTheParent(t *testing.T) {
	var pids []int
	p := forkexec.New()
	p.Sync()
	p.Exec("/bin/true", []string{"true"}, nil)
	pid, _ := run(t, p, forkexec.Options{Sync: func(pid int) error { pids = append(pids, pid); return nil }})
	if len(pids) != 1 || pids[0] != pid {
		t.Errorf("sync saw %v, want %d", pids, pid)
	}
}

func TestSyncErrorEndsTheChild(t *testing.T) {
	boom := errors.New("boom")
	p := forkexec.New()
	p.Sync()
	p.Exec("/bin/true", []string{"true"}, nil)
	_, err := p.Start(forkexec.Options{Sync: func(int) error { return boom }})
	if !errors.Is(err, boom) {
		t.Errorf("got %v, want boom", err)
	}
	if _, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != unix.ECHILD {
		t.Errorf("a child was left: %v", err)
	}
}

func TestForkedPart(t *testing.T) {
	t.Run("runs before what follows", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		p := forkexec.New()
		p.Fork(func() { p.Call(unix.SYS_WRITE, forkexec.Int(int(w.Fd())), p.Str("1"), forkexec.Int(1)) })
		p.Call(unix.SYS_WRITE, forkexec.Int(int(w.Fd())), p.Str("2"), forkexec.Int(1))
		p.Exec("/bin/true", []string{"true"}, nil)
		run(t, p, forkexec.Options{})
		w.Close()
		buf := make([]byte, 8)
		n, _ := r.Read(buf)
		if got := string(buf[:n]); got != "12" {
			t.Errorf("wrote %q, want 12", got)
		}
	})
	t.Run("reports its failure", func(t *testing.T) {
		p := forkexec.New()
		p.Fork(func() {
			p.Step("inner")
			p.Call(unix.SYS_CLOSE, forkexec.Int(-1))
		})
		p.Exec("/bin/true", []string{"true"}, nil)
		_, err := p.Start(forkexec.Options{})
		var e *forkexec.Error
		if !errors.As(err, &e) || e.Step != "inner" || e.Errno != unix.EBADF {
			t.Errorf("got %v, want inner: EBADF", err)
		}
	})
}

func BenchmarkForkExecTrue(b *testing.B) {
	for b.Loop() {
		p := forkexec.New()
		p.Exec("/bin/true", []string{"true"}, nil)
		run(b, p, forkexec.Options{})
	}
}

func TestSpawnedPartRunsBeside(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	gate, open, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out := forkexec.Int(int(w.Fd()))
	p := forkexec.New()
	one := make([]byte, 1)
	pid := p.Spawn(func() {
		p.Call(unix.SYS_READ, forkexec.Int(int(gate.Fd())), forkexec.Ptr(p, &one[0]), forkexec.Int(1))
		p.Call(unix.SYS_WRITE, out, p.Str("2"), forkexec.Int(1))
	})
	p.Call(unix.SYS_WRITE, out, p.Str("1"), forkexec.Int(1))
	p.Call(unix.SYS_WRITE, forkexec.Int(int(open.Fd())), p.Str("x"), forkexec.Int(1))
	p.Call(unix.SYS_WAIT4, pid, forkexec.Int(0), forkexec.Int(0), forkexec.Int(0))
	p.Call(unix.SYS_WRITE, out, p.Str("3"), forkexec.Int(1))
	p.Exec("/bin/true", []string{"true"}, nil)
	run(t, p, forkexec.Options{})
	w.Close()
	buf := make([]byte, 8)
	n, _ := r.Read(buf)
	if got := string(buf[:n]); got != "123" {
		t.Errorf("wrote %q, want 123", got)
	}
}
