//go:build linux

package guest

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/wire"
)

// inlet is a command's stdin: at most [wire.StdinWindow] buffered bytes for a pipe or terminal. Guarded by the exec's lock, except
// that only the feeder writes to file.
type inlet struct {
	file     *os.File
	terminal bool
	waiting  []byte // received, not yet read by the program
	received int64
	taken    int64
	eof      bool // the host has ended stdin
	broken   bool // no process reads: further input is dropped
}

// limit is the position up to which the host may send.
func (in *inlet) limit() int64 { return in.taken + wire.StdinWindow }

// worth reports whether the limit has risen enough for a frame: by a quarter of the window, or to its maximum.
func (in *inlet) worth(announced int64) bool {
	risen := in.limit() - announced
	return risen >= wire.StdinWindow/4 || risen > 0 && len(in.waiting) == 0 && in.received == announced
}

// feed receives stdin from the attached host.
func (e *exec) feed(at *attachment, b []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	in := e.inlet
	switch {
	case at.detached:
		return fault.ErrDisconnected
	case in == nil:
		return fault.Protocol("exec %q has no stdin", e.spec.ID)
	case in.eof && len(b) > 0:
		return fault.Protocol("stdin of exec %q continues after its end", e.spec.ID)
	case in.received+int64(len(b)) > in.limit():
		return fault.Protocol("stdin of exec %q beyond its limit", e.spec.ID)
	}
	in.received += int64(len(b))
	if in.broken {
		in.taken = in.received
	} else {
		in.waiting = append(in.waiting, b...)
	}
	e.change.Broadcast()
	return nil
}

// closeStdin ends stdin after the received bytes. For a terminal it sends the end-of-file character, possibly several times.
func (e *exec) closeStdin(at *attachment) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	in := e.inlet
	switch {
	case at.detached:
		return fault.ErrDisconnected
	case in == nil:
		return fault.Protocol("exec %q has no stdin", e.spec.ID)
	case in.terminal:
		if !in.broken && len(in.waiting) <= wire.StdinWindow {
			in.waiting = append(in.waiting, e.endOfFile())
		}
	default:
		in.eof = true
	}
	e.change.Broadcast()
	return nil
}

// endOfFile is the terminal's end-of-file character.
func (e *exec) endOfFile() byte {
	const ctrlD = 4
	c := byte(ctrlD)
	if raw, err := e.terminal.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			if t, err := unix.IoctlGetTermios(int(fd), unix.TCGETS); err == nil && t.Cc[unix.VEOF] != 0 {
				c = t.Cc[unix.VEOF]
			}
		})
	}
	return c
}

// feeder writes stdin to the pipe as the program reads. It owns the pipe.
func (e *exec) feeder() {
	in := e.inlet
	buf := make([]byte, 0, 4<<10)
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		for len(in.waiting) == 0 && !in.eof && !in.broken {
			e.change.Wait()
		}
		if len(in.waiting) == 0 || in.broken {
			break
		}
		buf = append(buf[:0], in.waiting[:min(len(in.waiting), cap(buf))]...)
		e.mu.Unlock()
		n, err := in.file.Write(buf)
		e.mu.Lock()
		in.waiting = in.waiting[n:]
		if len(in.waiting) == 0 {
			in.waiting = nil
		}
		// The host does not count a terminal's end-of-file characters; waiting holds at most a few of them.
		in.taken = max(in.received-int64(len(in.waiting)), in.taken)
		e.change.Broadcast()
		if err != nil {
			break
		}
	}
	if !in.eof || len(in.waiting) > 0 { // the program has closed it, or has ended
		in.broken = true
		in.waiting, in.taken = nil, in.received
	}
	if !in.terminal {
		in.file.Close()
	}
	e.change.Broadcast()
}

// closeInlet closes stdin when no process of the command is left.
func (e *exec) closeInlet() {
	e.mu.Lock()
	in := e.inlet
	if in != nil {
		in.broken = true
		e.change.Broadcast()
	}
	e.mu.Unlock()
	if in != nil {
		in.file.Close() // a blocked write of the feeder returns
	}
}
