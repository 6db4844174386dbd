//go:build linux

package forkexec_test

import (
	"errors"
	"io"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
)

// A child has none of its parent's mappings but the executable and the arena.
func TestChildHasNoOtherMemory(t *testing.T) {
	if forkexec.KernelWrites() {
		t.Skip("a C library has memory registered with the kernel: children have all but the heap")
	}
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(page)
	page[0] = 'p'
	_, w := pipe(t)
	p := forkexec.New()
	defer p.Free()
	if uintptr(unsafe.Pointer(forkexec.Alloc[int](p))) < 1<<46 {
		t.Skip("mappings lie among the heap here: children have it all")
	}
	p.Step("mapping")
	say(p, w, forkexec.Int(uintptr(unsafe.Pointer(&page[0]))), 1)
	p.Exec("/bin/true", []string{"true"}, nil)
	c, err := p.Start(forkexec.Options{})
	if err == nil {
		wait(t, c)
	}
	var e *forkexec.Error
	if !errors.As(err, &e) || e.Step != "mapping" || e.Errno != unix.EFAULT {
		t.Errorf("got %v, want mapping: EFAULT", err)
	}
}

// A spawned child shares the memory of the first, and has its own results, stack and failure.
func TestSpawnSharesMemory(t *testing.T) {
	r, w := pipe(t)
	in, feed := pipe(t)
	if _, err := feed.WriteString("from the second"); err != nil {
		t.Fatal(err)
	}
	p := forkexec.New()
	defer p.Free()
	shared := forkexec.Alloc[[15]byte](p)
	mine := p.Open(unix.SYS_DUP, forkexec.Int(int(w.Fd())))
	done, tell := p.Pipe()
	pid := p.Spawn(func() {
		p.Close(mine)
		p.Reopen(mine, unix.SYS_GETPID) // another child's result in the same slot
		p.Call(unix.SYS_READ, forkexec.Int(int(in.Fd())), forkexec.Ptr(p, shared), forkexec.Int(len(shared)))
		p.Call(unix.SYS_WRITE, tell, p.Str("x"), forkexec.Int(1))
	})
	p.Close(tell)
	p.Call(unix.SYS_READ, done, forkexec.Ptr(p, new([1]byte)), forkexec.Int(1))
	p.Expect(1, unix.EPIPE)
	p.Call(unix.SYS_WAIT4, pid, forkexec.Int(0), forkexec.Int(0), forkexec.Int(0))
	say(p, w, forkexec.Ptr(p, shared), len(shared))
	p.Call(unix.SYS_WRITE, mine, p.Str("!"), forkexec.Int(1))
	p.Exec("/bin/true", []string{"true"}, nil)
	run(t, p, forkexec.Options{})
	w.Close()
	if got, err := io.ReadAll(r); string(got) != "from the second!" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if *shared != [15]byte{} {
		t.Errorf("the parent's own memory holds %q", shared[:])
	}
}
