//go:build linux

package forkexec_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
)

// asParent makes TestMain start a child and die while the child waits for it.
const asParent = "BELLJAR_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(withoutClone3) != "" {
		if err := forbidClone3(); err != nil {
			fmt.Fprintln(os.Stderr, "forbid clone3:", err)
			os.Exit(1)
		}
	}
	if os.Getenv(asParent) != "" {
		p := forkexec.New()
		p.Sync()
		p.Exec("/bin/true", []string{"true"}, nil)
		_, err := p.Start(forkexec.Options{Sync: func(pid int) error {
			fmt.Println(pid)
			return unix.Kill(os.Getpid(), unix.SIGKILL)
		}})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const patience = time.Minute

// child returns the only child of this process.
func child(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			return pid
		}
	}
	t.Fatal("no child")
	return 0
}

func noChild(t *testing.T) {
	t.Helper()
	if _, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != unix.ECHILD {
		t.Errorf("a child was left: %v", err)
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// hang appends a call that notifies w and then never returns.
func hang(p *forkexec.Program, w *os.File) {
	p.Call(unix.SYS_WRITE, forkexec.Int(int(w.Fd())), p.Str("x"), forkexec.Int(1))
	p.Call(unix.SYS_PPOLL, forkexec.Int(0), forkexec.Int(0), forkexec.Int(0), forkexec.Int(0), forkexec.Int(0))
}

// A child that dies without a report has not executed its program.
func TestSilentDeathIsAnError(t *testing.T) {
	t.Run("of itself", func(t *testing.T) {
		p := forkexec.New()
		p.Call(unix.SYS_EXIT_GROUP, forkexec.Int(0))
		p.Exec("/bin/true", []string{"true"}, nil)
		if _, err := p.Start(forkexec.Options{}); !errors.Is(err, forkexec.ErrVanished) {
			t.Errorf("got %v, want vanished", err)
		}
		noChild(t)
	})
	t.Run("killed", func(t *testing.T) {
		r, w := pipe(t)
		p := forkexec.New()
		hang(p, w)
		p.Exec("/bin/true", []string{"true"}, nil)
		go func() {
			io.ReadFull(r, make([]byte, 1))
			unix.Kill(child(t), unix.SIGKILL)
		}()
		if _, err := p.Start(forkexec.Options{}); !errors.Is(err, forkexec.ErrVanished) {
			t.Errorf("got %v, want vanished", err)
		}
		noChild(t)
	})
	t.Run("at once after it has become one, it is none", func(t *testing.T) {
		p := forkexec.New()
		p.Exec("/bin/true", []string{"true"}, nil)
		c, err := p.Start(forkexec.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if c.StartTime == 0 {
			t.Error("no start time")
		}
		wait(t, c)
	})
}

func TestContextEndsTheChild(t *testing.T) {
	for _, sig := range []unix.Signal{0, unix.SIGSTOP} {
		t.Run(fmt.Sprintf("signal %d", sig), func(t *testing.T) {
			r, w := pipe(t)
			p := forkexec.New()
			p.Sync()
			hang(p, w)
			p.Exec("/bin/true", []string{"true"}, nil)
			boom := errors.New("boom")
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				io.ReadFull(r, make([]byte, 1))
				unix.Kill(child(t), sig)
				cancel(boom)
			}()
			if _, err := p.StartContext(ctx, forkexec.Options{}); !errors.Is(err, boom) {
				t.Errorf("got %v, want boom", err)
			}
			noChild(t)
		})
	}
	t.Run("that has ended before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, w := pipe(t)
		p := forkexec.New()
		hang(p, w)
		p.Exec("/bin/true", []string{"true"}, nil)
		if _, err := p.StartContext(ctx, forkexec.Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want canceled", err)
		}
		noChild(t)
	})
}

// A child whose parent is killed while the child waits for it ends as well.
func TestParentsDeathEndsTheWait(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), asParent+"=1")
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe() // the child holds the other end, too
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() { out.Close() })
	text, err := io.ReadAll(out)
	if !timer.Stop() || err != nil {
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		t.Errorf("its child %d waits on: %v", pid, err)
		if pid > 1 {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
	parent.Wait()
}

func TestOnlyClosesTheRest(t *testing.T) {
	r, w := pipe(t)
	spare, _ := pipe(t)
	// Without close-on-exec, so that ls shows what was open before.
	kept, err := unix.Dup(int(spare.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(kept)
	lost, err := unix.Dup(int(spare.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(lost)
	p := forkexec.New()
	p.Call(unix.SYS_DUP3, forkexec.Int(int(w.Fd())), forkexec.Int(1), forkexec.Int(0))
	p.Exec("/bin/ls", []string{"ls", "/proc/self/fd"}, []string{"PATH=/usr/bin:/bin"})
	c, err := p.Start(forkexec.Options{Only: []int{kept, int(w.Fd())}})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	wait(t, c)
	open := strings.Fields(string(out))
	if !slices.Contains(open, strconv.Itoa(kept)) || slices.Contains(open, strconv.Itoa(lost)) {
		t.Errorf("open are %v, want %d and not %d", open, kept, lost)
	}
}

// The last end of a pipe reports a death, in both directions.
func TestPipeReportsDeath(t *testing.T) {
	for name, c := range map[string]struct {
		second func(p *forkexec.Program, write forkexec.Arg)
		want   unix.Errno
	}{
		"a byte":   {func(p *forkexec.Program, w forkexec.Arg) { p.Call(unix.SYS_WRITE, w, p.Str("x"), forkexec.Int(1)) }, 0},
		"no byte":  {func(p *forkexec.Program, w forkexec.Arg) { p.Close(w) }, unix.EPIPE},
		"a death":  {func(p *forkexec.Program, _ forkexec.Arg) { p.Call(unix.SYS_EXIT_GROUP, forkexec.Int(0)) }, unix.EPIPE},
		"a report": {func(p *forkexec.Program, _ forkexec.Arg) { p.Call(unix.SYS_CLOSE, forkexec.Int(-1)) }, unix.EBADF},
	} {
		t.Run(name, func(t *testing.T) {
			p := forkexec.New()
			p.Step("gate")
			r, w := p.Pipe()
			pid := p.Spawn(func() { c.second(p, w) })
			p.Close(w)
			p.Call(unix.SYS_READ, r, forkexec.Ptr(p, new([1]byte)), forkexec.Int(1))
			p.Expect(1, unix.EPIPE)
			p.Call(unix.SYS_WAIT4, pid, forkexec.Int(0), forkexec.Int(0), forkexec.Int(0))
			p.Exec("/bin/true", []string{"true"}, nil)
			child, err := p.Start(forkexec.Options{})
			var e *forkexec.Error
			switch {
			case c.want == 0 && err != nil:
				t.Error(err)
			case c.want != 0 && (!errors.As(err, &e) || e.Step != "gate" || e.Errno != c.want):
				t.Errorf("got %v, want gate: %v", err, c.want)
			}
			if err == nil {
				wait(t, child)
			}
			noChild(t)
		})
	}
}

// Inserted operations come before the operation at that index, and extend the parts that contain them.
func TestInsert(t *testing.T) {
	say := func(p *forkexec.Program, w *os.File, what string) {
		p.Call(unix.SYS_WRITE, forkexec.Int(int(w.Fd())), p.Str(what), forkexec.Int(1))
	}
	for at, want := range []string{"?ABCE", "?ABCE", "A?BCE", "AB?CE", "ABC?E", "ABCE", "ABCE", "ABC?E", "ABCE?", "ABCE?", "ABCE"} {
		t.Run(strconv.Itoa(at), func(t *testing.T) {
			r, w := pipe(t)
			p := forkexec.New()
			p.Fork(func() { // 0
				say(p, w, "A") // 1
				say(p, w, "B") // 2
			})
			say(p, w, "C")                                   // 3
			p.Call(unix.SYS_CHDIR, p.Str("/no/such/folder")) // 4
			p.UnlessError(func() {
				say(p, w, "D") // 5
				say(p, w, "D") // 6
			}, unix.ENOENT)
			say(p, w, "E") // 7
			p.Exec("/bin/true", []string{"true"}, nil)
			p.Insert(at, func() { say(p, w, "?") })
			run(t, p, forkexec.Options{})
			w.Close()
			got, _ := io.ReadAll(r)
			if string(got) != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
