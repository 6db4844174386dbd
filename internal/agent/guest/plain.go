//go:build linux

package guest

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// endOfFile is the character that ends a terminal's input.
const endOfFile = 4

// plain makes the terminal of a master pass bytes unchanged. A reader gets end of file at once: there is no input.
func (a *Agent) plain(master int) error {
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
	a.waits.once.Do(func() { a.waits.yes = waits(master) })
	if !a.waits.yes {
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
