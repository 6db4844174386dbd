//go:build linux

package guest

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/spool"
	"github.com/belljar/belljar/internal/agent/wire"
)

// maxPipe is the largest capacity that an unprivileged program can give a pipe, and so the most that a read without waiting can
// return.
const maxPipe = 1 << 20

// outlet is one pipe, or terminal, that a command writes to.
type outlet struct {
	e       *exec
	stream  wire.Stream
	file    *os.File
	raw     syscall.RawConn
	drained chan struct{} // closed when no more output is kept
	ended   chan struct{} // closed when no more output is read
	once    sync.Once
	reading sync.Mutex // keeps bytes in the order in which they are read
}

func newOutlet(e *exec, stream wire.Stream, file *os.File) (*outlet, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &outlet{e: e, stream: stream, file: file, raw: raw, drained: make(chan struct{}), ended: make(chan struct{})}, nil
}

// run reads until the last writer is gone. After the drain it reads and drops, so that survivors neither block nor die of SIGPIPE.
func (o *outlet) run() {
	defer close(o.ended)
	defer o.finish()
	allowance := maxPipe // bytes kept beyond the spool's limit once the program has ended
	keep := true
	for {
		if keep {
			o.e.awaitRoom()
		}
		n, err := o.read(func(b []byte) {
			if keep {
				allowance -= o.e.keep(o.stream, b)
			}
		})
		switch {
		case n > 0 && allowance > 0:
		case n > 0 || errors.Is(err, os.ErrDeadlineExceeded):
			// The deadline has passed, but output written before it counts, even if we read it later.
			for room := maxPipe; keep && min(room, allowance) > 0 && o.readNow(func(b []byte) {
				room -= len(b)
				allowance -= o.e.keep(o.stream, b)
			}); {
			}
			keep = false
			o.finish()
			_ = o.file.SetReadDeadline(time.Time{})
		default:
			return // end of file; EIO if no process has the terminal open; or closed by us
		}
	}
}

func (o *outlet) finish() { o.once.Do(func() { close(o.drained) }) }

// read waits for output and passes it to use. It takes a buffer from the pool only when there is some.
func (o *outlet) read(use func([]byte)) (n int, err error) {
	wait := o.raw.Read(func(fd uintptr) bool {
		n, err = o.readFD(fd, use)
		return err != unix.EAGAIN
	})
	if wait != nil {
		return 0, wait
	}
	return n, err
}

// readNow reads without waiting; false if there was nothing.
func (o *outlet) readNow(use func([]byte)) bool {
	n := 0
	if err := o.raw.Control(func(fd uintptr) { n, _ = o.readFD(fd, use) }); err != nil {
		return false
	}
	return n > 0
}

// readFD reads once, without waiting.
func (o *outlet) readFD(fd uintptr, use func([]byte)) (int, error) {
	buf := o.e.a.buffers.Get().(*[]byte)
	defer o.e.a.buffers.Put(buf)
	o.reading.Lock()
	defer o.reading.Unlock()
	n, err := readOutput(unix.Read, int(fd), *buf)
	if n > 0 {
		use((*buf)[:n])
	}
	return n, err
}

// catchUp keeps all output written so far, up to the capacity of a pipe.
func (o *outlet) catchUp() {
	for room := maxPipe; room > 0 && !isClosed(o.drained); {
		if !o.readNow(func(b []byte) { room -= len(b); o.e.keep(o.stream, b) }) {
			return
		}
	}
}

// readOutput reads once, without waiting. EIO means that no process has the terminal open, but not that all has been read: the
// kernel checks for output first and for a writer then, and the writer may write and close between the two. No output follows EIO,
// so a second EIO is final.
func readOutput(read func(fd int, b []byte) (int, error), fd int, b []byte) (int, error) {
	for left := false; ; {
		n, err := read(fd, b)
		switch {
		case err == unix.EINTR:
		case err == unix.EIO && !left:
			left = true
		default:
			return n, err
		}
	}
}

// awaitRoom waits until the spool can hold a whole read. It does not wait once the program has ended, so a slow host does not
// cause loss: a pipe's capacity may then exceed the limit. It does not wait for output that will be dropped, either.
func (e *exec) awaitRoom() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for !e.drain && !e.spool.Full() && e.room() < spool.MaxChunk+spool.Overhead {
		e.change.Wait()
	}
}

// room returns how much more output the spool takes before the program must wait. The exec is locked.
func (e *exec) room() int {
	if e.terminal != nil && e.attached != nil {
		return e.spool.Room() - (wire.SpoolSize - wire.TerminalSpool)
	}
	return e.spool.Room()
}

// keep adds output to the spool and returns how many bytes of it exceed the spool's limit.
func (e *exec) keep(stream wire.Stream, b []byte) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.spool.Add(stream, b)
	e.change.Broadcast()
	return min(len(b), max(0, -e.spool.Room()))
}
