//go:build linux

package forkexec_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
)

func panics(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}

func TestFree(t *testing.T) {
	var pool forkexec.Pool
	defer pool.Drain()
	p := pool.New()
	at := forkexec.Alloc[[64]byte](p)
	copy(at[:], "left behind")
	where := uintptr(unsafe.Pointer(at))
	p.Free()
	p.Free()
	panics(t, "use of a freed program", func() { p.Call(unix.SYS_GETPID) })

	p, q := pool.New(), pool.New()
	defer p.Free()
	defer q.Free()
	one, two := forkexec.Alloc[[64]byte](p), forkexec.Alloc[[64]byte](q)
	if uintptr(unsafe.Pointer(one)) != where {
		t.Error("the memory was not used again")
	}
	if *one != [64]byte{} {
		t.Errorf("new memory holds %q", one[:])
	}
	if one == two {
		t.Error("two programs have the same memory")
	}
	panics(t, "store to the heap", func() {
		p.Call(unix.SYS_GETPID)
		p.Store(new(int32))
	})
	panics(t, "store to another's", func() { p.Store((*int32)(unsafe.Pointer(two))) })
}

// Programs may have any size: more operations than there is room for initially, and strings larger than a block.
func TestLargeProgram(t *testing.T) {
	var pool forkexec.Pool
	defer pool.Drain()
	for range 2 {
		p := pool.New()
		long := strings.Repeat("x", 100<<10) // the kernel accepts up to 128 KiB
		argv := []string{"sh", "-c", `test ${#1} = 102400 && test ${#7} = 102400 && exit $8`, "sh", long, long, long, long, long, long, long, "9"}
		for range 5000 {
			p.Call(unix.SYS_GETPID)
		}
		p.Exec("/bin/sh", argv, nil)
		for range 3 {
			if _, s := run(t, p, forkexec.Options{Only: []int{}}); s.ExitStatus() != 9 {
				t.Errorf("status %v, want exit 9", s)
			}
		}
		p.Free()
	}
}

// Ptr copies the present value.
func TestPtrCopies(t *testing.T) {
	r, w := pipe(t)
	p := forkexec.New()
	defer p.Free()
	word := [4]byte([]byte("then"))
	p.Call(unix.SYS_WRITE, forkexec.Int(int(w.Fd())), forkexec.Ptr(p, &word), forkexec.Int(4))
	word = [4]byte([]byte("late"))
	list := []byte("list")
	own := forkexec.Slice(p, list)
	copy(list, "late")
	p.Call(unix.SYS_WRITE, forkexec.Int(int(w.Fd())), forkexec.Ptr(p, own), forkexec.Int(4))
	p.Exec("/bin/true", []string{"true"}, nil)
	run(t, p, forkexec.Options{})
	w.Close()
	if got, _ := io.ReadAll(r); string(got) != "thenlist" {
		t.Errorf("got %q", got)
	}
}

// Births work while the heap grows and is collected.
func TestBirthsBesideABusyHeap(t *testing.T) {
	var pool forkexec.Pool
	defer pool.Drain()
	stop := make(chan struct{})
	var busy, births sync.WaitGroup
	busy.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				runtime.KeepAlive(bytes.Repeat([]byte{1}, 1<<20+n))
			}
		}
	})
	for i := range 4 {
		births.Go(func() {
			for j := range 10 {
				r, w, err := os.Pipe()
				if err != nil {
					t.Error(err)
					return
				}
				want := fmt.Sprintf("%d.%d", i, j)
				p := pool.New()
				p.Fork(func() { p.Call(unix.SYS_WRITE, forkexec.Int(int(w.Fd())), p.Str(want), forkexec.Int(len(want))) })
				p.Exec("/bin/true", []string{"true"}, nil)
				c, err := p.Start(forkexec.Options{})
				p.Free()
				w.Close()
				got, _ := io.ReadAll(r)
				r.Close()
				if err != nil || string(got) != want {
					t.Errorf("got %q, %v; want %q", got, err, want)
				}
				if err == nil {
					wait(t, c)
				}
			}
		})
	}
	births.Wait()
	close(stop)
	busy.Wait()
}

// BenchmarkBirth shows that a birth costs the same whatever the size of the heap.
func BenchmarkBirth(b *testing.B) {
	for _, size := range []int{0, 200 << 20} {
		b.Run(fmt.Sprintf("heap=%dMB", size>>20), func(b *testing.B) {
			heap := bytes.Repeat([]byte{1}, size)
			var pool forkexec.Pool
			defer pool.Drain()
			for b.Loop() {
				p := pool.New()
				p.Exec("/bin/true", []string{"true"}, nil)
				c, err := p.Start(forkexec.Options{})
				p.Free()
				if err != nil {
					b.Fatal(err)
				}
				wait(b, c)
			}
			runtime.KeepAlive(heap)
		})
	}
}
