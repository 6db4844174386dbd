//go:build linux

package guest

import (
	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/guest/pty"
	"github.com/belljar/belljar/internal/agent/wire"
)

// openTerminal gives a command a PTY.
func (l *launcher) openTerminal(size wire.Size) error {
	master, slave, err := pty.Open(size)
	if err != nil {
		return err
	}
	l.child = append(l.child, slave)
	file, err := l.own(master, "terminal")
	if err != nil {
		return err
	}
	l.stdio, l.tty = [3]int{slave, slave, slave}, slave
	o, err := newOutlet(l.e, wire.Stdout, file)
	if err != nil {
		return err
	}
	l.e.terminal, l.e.outlets = file, []*outlet{o}
	l.e.inlet = &inlet{file: file, terminal: true}
	return nil
}

// resize sets the terminal's size. The kernel signals its program.
func (e *exec) resize(size wire.Size) error {
	if e.terminal == nil {
		return fault.Protocol("exec %q has no terminal", e.spec.ID)
	}
	raw, err := e.terminal.SyscallConn()
	if err != nil {
		return err
	}
	// A closed terminal means that its command has ended.
	_ = raw.Control(func(fd uintptr) { err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, pty.Winsize(size)) })
	return err
}

// size returns the terminal's size; nil without one, and after the command has ended.
func (e *exec) size() *wire.Size {
	if e.terminal == nil {
		return nil
	}
	var size *wire.Size
	if raw, err := e.terminal.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { // a closed terminal has no size
			if ws, err := unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ); err == nil {
				size = &wire.Size{Cols: ws.Col, Rows: ws.Row}
			}
		})
	}
	return size
}
