//go:build linux

package forkexec_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
)

// kept is a started keeper, and the descriptor for its records.
type kept struct {
	forkexec.Child
	t       *testing.T
	program *forkexec.Program
	records *os.File
}

// keep starts a command below a keeper. before appends the operations of the keeper, after those of its child.
func keep(t *testing.T, before, after func(p *forkexec.Program)) *kept {
	t.Helper()
	r, w := pipe(t)
	p := forkexec.New()
	p.Call(unix.SYS_PRCTL, forkexec.Int(unix.PR_SET_CHILD_SUBREAPER), forkexec.Int(1))
	if before != nil {
		before(p)
	}
	p.SplitKeeper(int(w.Fd()), 0)
	after(p)
	c, err := p.StartKeeper()
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	return &kept{Child: c, t: t, program: p, records: r}
}

// next returns the next record, or nil after the last one.
func (k *kept) next() *forkexec.Record {
	k.t.Helper()
	buf := make([]byte, forkexec.RecordSize)
	if _, err := io.ReadFull(k.records, buf); err == io.EOF {
		return nil
	} else if err != nil {
		k.t.Fatal(err)
	}
	rec, ok := forkexec.ParseRecord(buf)
	if !ok {
		k.t.Fatal("short record")
	}
	return &rec
}

// end expects no further record, and that the keeper ends with that status.
func (k *kept) end(status int) {
	k.t.Helper()
	if rec := k.next(); rec != nil {
		k.t.Errorf("a further record: %+v", rec)
	}
	if s := wait(k.t, k.Child); s.ExitStatus() != status {
		k.t.Errorf("keeper ended with %v, want %d", s, status)
	}
	k.program.Free()
	noChild(k.t)
}

func sh(script string) func(p *forkexec.Program) {
	return func(p *forkexec.Program) {
		p.Exec("/bin/sh", []string{"sh", "-c", script}, []string{"PATH=/usr/bin:/bin"})
	}
}

// Usually there is one process, and one record of its end.
func TestKeeperOfOne(t *testing.T) {
	k := keep(t, nil, sh("exit 5"))
	if rec := k.next(); rec == nil || rec.Kind != forkexec.RecordStarted || rec.Pid == 0 || int(rec.Pid) == k.Pid {
		t.Errorf("first record %+v of keeper %d, want a start", rec, k.Pid)
	}
	rec := k.next()
	if rec == nil || rec.Kind != forkexec.RecordExited|forkexec.RecordEmpty || unix.WaitStatus(rec.Status).ExitStatus() != 5 || rec.MaxRSS == 0 {
		t.Errorf("second record %+v, want exit 5, nothing left, and a peak", rec)
	}
	k.end(0)
}

// The keeper reports the first process's end immediately, waits for a double-forked grandchild, and exits only then.
func TestKeeperOfMore(t *testing.T) {
	hold, release := pipe(t)
	k := keep(t, nil, func(p *forkexec.Program) {
		p.Call(unix.SYS_DUP3, forkexec.Int(int(hold.Fd())), forkexec.Int(0), forkexec.Int(0))
		p.Call(unix.SYS_CLOSE_RANGE, forkexec.Int(3), forkexec.Int(1<<30), forkexec.Int(unix.CLOSE_RANGE_CLOEXEC))
		sh("(setsid cat >/dev/null <&3 &) 3<&0; exit 5")(p)
	})
	hold.Close()
	k.next()
	if rec := k.next(); rec == nil || rec.Kind != forkexec.RecordExited || unix.WaitStatus(rec.Status).ExitStatus() != 5 {
		t.Errorf("second record %+v, want exit 5 with somebody left", rec)
	}
	release.Close()
	if rec := k.next(); rec == nil || rec.Kind != forkexec.RecordEmpty || rec.MaxRSS == 0 {
		t.Errorf("third record %+v, want empty with a peak", rec)
	}
	k.end(0)
}

// A failure of any process names its step and ends the program.
func TestKeeperFails(t *testing.T) {
	bad := func(step string) func(p *forkexec.Program) {
		return func(p *forkexec.Program) {
			p.Step(step)
			p.Call(unix.SYS_CLOSE, forkexec.Int(-1))
		}
	}
	for name, c := range map[string]struct {
		before, after func(p *forkexec.Program)
		step          string
		errno         unix.Errno
		status        int
	}{
		"the keeper":  {bad("mine"), sh("exit 5"), "mine", unix.EBADF, 127},
		"its child":   {nil, bad("yours"), "yours", unix.EBADF, 0},
		"the program": {nil, func(p *forkexec.Program) { p.Step("exec"); p.Exec("/no/such/program", []string{"x"}, nil) }, "exec", unix.ENOENT, 0},
	} {
		t.Run(name, func(t *testing.T) {
			k := keep(t, c.before, c.after)
			rec := k.next()
			if rec == nil || rec.Kind&forkexec.RecordFailed == 0 {
				t.Fatalf("first record %+v, want a failure", rec)
			}
			if e := k.program.Failure(*rec); e.Step != c.step || e.Errno != c.errno {
				t.Errorf("got %v, want %s: %v", e, c.step, c.errno)
			}
			for rec != nil && rec.Kind&forkexec.RecordEmpty == 0 {
				if rec = k.next(); rec == nil {
					t.Error("the last record does not say that nothing is left")
				}
			}
			k.end(c.status)
		})
	}
}

// A child that dies before its execve ends like one that dies after it.
func TestKeptChildDies(t *testing.T) {
	k := keep(t, nil, func(p *forkexec.Program) {
		pid := p.Open(unix.SYS_GETPID)
		p.Call(unix.SYS_KILL, pid, forkexec.Int(int(unix.SIGKILL)))
		sh("exit 5")(p)
	})
	k.next()
	if rec := k.next(); rec == nil || unix.WaitStatus(rec.Status).Signal() != unix.SIGKILL {
		t.Errorf("got %+v, want SIGKILL", rec)
	}
	k.end(0)
}

// A command has no blocked signal, whatever the thread that started it blocks. No handler of this process runs in a process that shares
// its memory: signals before the execve wait for it.
func TestKeptSignals(t *testing.T) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, unix.SIGUSR1)
	defer signal.Stop(caught)
	t.Run("mask", func(t *testing.T) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var block, old unix.Sigset_t
		block.Val[0] = 1 << (unix.SIGUSR2 - 1)
		if err := unix.PthreadSigmask(unix.SIG_SETMASK, &block, &old); err != nil {
			t.Fatal(err)
		}
		defer unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
		r, w := pipe(t)
		k := keep(t, nil, func(p *forkexec.Program) {
			p.Call(unix.SYS_DUP3, forkexec.Int(int(w.Fd())), forkexec.Int(1), forkexec.Int(0))
			p.Exec("/bin/cat", []string{"cat", "/proc/self/status"}, nil)
		})
		w.Close()
		got, err := io.ReadAll(r)
		// A signal that this process's parent ignored stays ignored.
		own, _ := os.ReadFile("/proc/self/status")
		_, ignored, _ := strings.Cut(string(own), "\nSigIgn:\t")
		ignored, _, _ = strings.Cut(ignored, "\n")
		if want := fmt.Sprintf("SigBlk:\t%016x\nSigIgn:\t%s\nSigCgt:\t%016x\n", 0, ignored, 0); !strings.Contains(string(got), want) || err != nil {
			t.Errorf("got %q, want %q, %v", got, want, err)
		}
		k.next()
		k.next()
		k.end(0)
	})
	t.Run("handlers", func(t *testing.T) {
		k := keep(t, nil, func(p *forkexec.Program) {
			pid := p.Open(unix.SYS_GETPID)
			p.Call(unix.SYS_KILL, pid, forkexec.Int(int(unix.SIGUSR1)))
			sh("exit 5")(p)
		})
		k.next()
		if rec := k.next(); rec == nil || unix.WaitStatus(rec.Status).Signal() != unix.SIGUSR1 {
			t.Errorf("got %+v, want an end by SIGUSR1", rec)
		}
		k.end(0)
	})
	select {
	case s := <-caught:
		t.Errorf("%v was taken for one of this process's", s)
	default:
	}
}

// A keeper's command does not see its parent's memory, and its parent does not see the command's.
func TestKeptMemory(t *testing.T) {
	r, w := pipe(t)
	heap := []byte(strings.Repeat("h", 1<<16))
	k := keep(t, nil, func(p *forkexec.Program) {
		p.Call(unix.SYS_DUP3, forkexec.Int(int(w.Fd())), forkexec.Int(1), forkexec.Int(0))
		p.Exec("/bin/cat", []string{"cat", "/proc/self/maps"}, nil)
	})
	w.Close()
	maps, err := io.ReadAll(r)
	if err != nil || strings.Contains(string(maps), "forkexec.test") || !strings.Contains(string(maps), "cat") {
		t.Errorf("maps of the command: %s, %v", maps, err)
	}
	k.next()
	k.next()
	k.end(0)
	runtime.KeepAlive(heap)
}

// A keeper without shared memory sends the same reports, and does not write to its parent's memory.
func TestKeeperApart(t *testing.T) {
	for name, c := range map[string]struct {
		path   string
		status int
	}{"a program": {"/bin/true", 0}, "none": {"/no/such/program", 127}} {
		t.Run(name, func(t *testing.T) {
			var shared *int32
			k := keep(t, nil, func(p *forkexec.Program) {
				p.UnshareMemory()
				shared = forkexec.Alloc[int32](p)
				p.Call(unix.SYS_GETPID)
				p.Store(shared)
				p.Step("exec")
				p.Exec(c.path, []string{"x"}, nil)
			})
			rec := k.next()
			if failed := rec != nil && rec.Kind&forkexec.RecordFailed != 0; rec == nil || failed != (c.status != 0) {
				t.Fatalf("first record %+v", rec)
			} else if failed && k.program.Failure(*rec).Errno != unix.ENOENT {
				t.Errorf("got %v", k.program.Failure(*rec))
			}
			for rec.Kind&forkexec.RecordEmpty == 0 {
				if rec = k.next(); rec == nil {
					t.Fatal("the last record does not say that nothing is left")
				}
			}
			if status := unix.WaitStatus(rec.Status); rec.Kind&forkexec.RecordExited == 0 || status.ExitStatus() != c.status {
				t.Errorf("last record %+v", rec)
			}
			if *shared != 0 {
				t.Errorf("the child wrote %d to its parent's memory", *shared)
			}
			k.end(0)
		})
	}
}

func BenchmarkKeeperTrue(b *testing.B) {
	var pool forkexec.Pool
	for b.Loop() {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			b.Fatal(err)
		}
		p := pool.New()
		p.SplitKeeper(pair[1], 0)
		p.Exec("/bin/true", []string{"true"}, nil)
		c, err := p.StartKeeper()
		if err != nil {
			b.Fatal(err)
		}
		unix.Close(pair[1])
		buf := make([]byte, forkexec.RecordSize)
		for n := 1; n > 0; {
			if n, err = unix.Read(pair[0], buf); err != nil && !errors.Is(err, unix.EINTR) {
				b.Fatal(err)
			}
		}
		unix.Close(pair[0])
		wait(b, c)
		p.Free()
	}
}
