//go:build linux

package guest

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/wire"
)

// openTerminal gives a command a PTY.
func (l *launcher) openTerminal(size wire.Size) error {
	master, slave, err := openPTY(size)
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

// openPTY makes a PTY. Its slave belongs to the user who opens the master, so this runs as the user.
func openPTY(size wire.Size) (master, slave int, err error) {
	master, err = unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		if master, err = unix.Open("/dev/pts/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0); err != nil {
			return 0, 0, fmt.Errorf("open a terminal: %w", err)
		}
	}
	defer func() {
		if err != nil {
			unix.Close(master)
		}
	}()
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return 0, 0, fmt.Errorf("unlock the terminal: %w", err)
	}
	if err := unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, winsize(size)); err != nil {
		return 0, 0, fmt.Errorf("size the terminal: %w", err)
	}
	// By descriptor, not by name: /dev/pts may be another instance.
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return 0, 0, fmt.Errorf("open the terminal's other side: %w", errno)
	}
	return master, int(peer), nil
}

func winsize(s wire.Size) *unix.Winsize { return &unix.Winsize{Col: s.Cols, Row: s.Rows} }

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
	_ = raw.Control(func(fd uintptr) { err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, winsize(size)) })
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
