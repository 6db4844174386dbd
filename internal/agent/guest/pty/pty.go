//go:build linux

// Package pty makes pseudo-terminals.
package pty

import (
	"fmt"
	"os"
	"sync"

	"github.com/belljar/belljar/internal/agent/wire"
	"golang.org/x/sys/unix"
)

// endOfFile is the character that ends a terminal's input.
const endOfFile = 4

// Plain makes terminals pass bytes unchanged. The zero value is ready.
type Plain struct {
	once sync.Once
	yes  bool // readers wait for input that cannot come
}

// Set makes the terminal of a master plain. A reader gets end of file immediately: there is no input.
func (p *Plain) Set(master int) error {
	t, err := unix.IoctlGetTermios(master, unix.TCGETS)
	if err != nil {
		return fmt.Errorf("read the terminal's modes: %w", err)
	}
	t.Iflag &^= unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 0, 0
	if err := unix.IoctlSetTermios(master, unix.TCSETS, t); err != nil {
		return fmt.Errorf("set the terminal's modes: %w", err)
	}
	p.once.Do(func() { p.yes = waits(master) })
	if !p.yes {
		return nil
	}
	t.Lflag |= unix.ICANON
	t.Cc[unix.VEOF] = endOfFile
	if err := unix.IoctlSetTermios(master, unix.TCSETS, t); err != nil {
		return fmt.Errorf("set the terminal's modes: %w", err)
	}
	return endInput(master)
}

// waits reports whether a reader of a terminal blocks despite VMIN and VTIME of 0, as on gVisor's kernel.
func waits(master int) bool {
	peer, err := openPeer(master)
	if err != nil {
		return false
	}
	defer unix.Close(peer)
	_, err = unix.Read(peer, make([]byte, 1))
	return err == unix.EAGAIN
}

// endInput makes the next reader of a line-mode terminal get end of file. It first reads the pending input: gVisor ignores two
// ends in a row, and the reader would block.
func endInput(master int) error {
	peer, err := openPeer(master)
	if err != nil {
		return err
	}
	defer unix.Close(peer)
	var buf [256]byte
	for range 64 {
		if _, err := unix.Read(peer, buf[:]); err == unix.EAGAIN {
			break
		} else if err != nil && err != unix.EINTR {
			return fmt.Errorf("read the terminal's input: %w", err)
		}
	}
	if _, err := unix.Write(master, []byte{endOfFile}); err != nil {
		return fmt.Errorf("end the terminal's input: %w", err)
	}
	return nil
}

// openPeer opens the other side of a master for non-blocking reads.
func openPeer(master int) (int, error) {
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC)
	if errno != 0 {
		return 0, fmt.Errorf("open the terminal's other side: %w", errno)
	}
	return int(peer), nil
}

// Open makes a PTY. Its slave belongs to the user who opens the master, so this runs as the user.
func Open(size wire.Size) (master, slave int, err error) {
	master, err = openMaster()
	if err == unix.EACCES {
		// Programs may not make any: the master is the agent's, and the file system gives the slave to the user.
		user, _ := unix.SetfsuidRetUid(os.Geteuid())
		master, err = openMaster()
		unix.SetfsuidRetUid(user)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("open a terminal: %w", err)
	}
	defer func() {
		if err != nil {
			unix.Close(master)
		}
	}()
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return 0, 0, fmt.Errorf("unlock the terminal: %w", err)
	}
	if err := unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, Winsize(size)); err != nil {
		return 0, 0, fmt.Errorf("size the terminal: %w", err)
	}
	// By descriptor, not by name: /dev/pts may be another instance.
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return 0, 0, fmt.Errorf("open the terminal's other side: %w", errno)
	}
	return master, int(peer), nil
}

func openMaster() (int, error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	master, err := unix.Open("/dev/ptmx", flags, 0)
	if err != nil {
		master, err = unix.Open("/dev/pts/ptmx", flags, 0)
	}
	return master, err
}

// Winsize converts a size to the kernel's type.
func Winsize(s wire.Size) *unix.Winsize { return &unix.Winsize{Col: s.Cols, Row: s.Rows} }
