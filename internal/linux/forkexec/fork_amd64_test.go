//go:build linux

package forkexec_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
)

// say appends a write of n bytes at p to w.
func say(p *forkexec.Program, w *os.File, at forkexec.Arg, n int) {
	p.Call(unix.SYS_WRITE, forkexec.Int(int(w.Fd())), at, forkexec.Int(n))
}

func TestChildHasNoHeap(t *testing.T) {
	r, w := pipe(t)
	heap := []byte(strings.Repeat("h", 1<<20))
	p := forkexec.New()
	defer p.Free()
	own := forkexec.Alloc[[8]byte](p)
	copy(own[:], "in arena")
	if uintptr(unsafe.Pointer(own)) < 1<<46 {
		t.Skip("mappings lie among the heap here: children have it all")
	}
	p.Step("arena")
	say(p, w, forkexec.Ptr(p, own), len(own))
	p.Step("heap")
	say(p, w, forkexec.Int(uintptr(unsafe.Pointer(&heap[0]))), 8)
	p.Exec("/bin/true", []string{"true"}, nil)
	c, err := p.Start(forkexec.Options{})
	if err == nil {
		wait(t, c)
	}
	var e *forkexec.Error
	if !errors.As(err, &e) || e.Step != "heap" || e.Errno != unix.EFAULT {
		t.Errorf("got %v, want heap: EFAULT", err)
	}
	w.Close()
	if got, err := io.ReadAll(r); string(got) != "in arena" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	runtime.KeepAlive(heap)
}

// A program has no blocked signal, whatever the thread that started it blocks. Before its execve, a child has none of the program's
// handlers.
func TestChildsSignals(t *testing.T) {
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
		p := forkexec.New()
		defer p.Free()
		p.Call(unix.SYS_DUP3, forkexec.Int(int(w.Fd())), forkexec.Int(1), forkexec.Int(0))
		p.Exec("/bin/grep", []string{"grep", "^SigBlk", "/proc/self/status"}, nil)
		run(t, p, forkexec.Options{})
		w.Close()
		got, _ := io.ReadAll(r)
		if want := "SigBlk:\t0000000000000000\n"; string(got) != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("handlers", func(t *testing.T) {
		caught := make(chan os.Signal, 1)
		signal.Notify(caught, unix.SIGUSR1)
		defer signal.Stop(caught)
		p := forkexec.New()
		defer p.Free()
		pid := p.Open(unix.SYS_GETPID)
		p.Call(unix.SYS_KILL, pid, forkexec.Int(int(unix.SIGUSR1)))
		p.Exec("/bin/true", []string{"true"}, nil)
		if _, err := p.Start(forkexec.Options{}); !errors.Is(err, forkexec.ErrVanished) {
			t.Errorf("got %v, want vanished", err)
		}
		noChild(t)
	})
}

// compat marks the run of this binary in which the kernel places mappings within the heap's usual range.
const compat = "BELLJAR_TEST_COMPAT"

// With an unlimited stack, or such a personality, mappings start at a third of the address space and grow upwards.
func TestMemoryAmongTheHeap(t *testing.T) {
	if os.Getenv(compat) == "" {
		cmd := exec.Command("setarch", "--addr-compat-layout", os.Args[0], "-test.run=^TestMemoryAmongTheHeap$", "-test.count=1")
		cmd.Env = append(os.Environ(), compat+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	p := forkexec.New()
	defer p.Free()
	if at := uintptr(unsafe.Pointer(forkexec.Alloc[int](p))); at >= 1<<46 {
		t.Skipf("memory at %#x: this kernel has no such layout", at)
	}
	p.Exec("/bin/true", []string{"true"}, nil)
	run(t, p, forkexec.Options{})
}
