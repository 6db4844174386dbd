//go:build linux

// Package sock provides sockets over which the agent and a process that it started take turns.
package sock

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Control is the agent's end of the socket of a parked interpreter.
type Control struct{ *os.File }

// New makes a socket pair that keeps messages apart and reports their senders.
func New() (ours *Control, theirs int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	err = unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	if err == nil {
		err = unix.SetNonblock(pair[0], true)
	}
	if err != nil {
		unix.Close(pair[0])
		unix.Close(pair[1])
		return nil, 0, err
	}
	return &Control{os.NewFile(uintptr(pair[0]), "parked")}, pair[1], nil
}

// Close closes the socket, if there is one.
func (c *Control) Close() {
	if c != nil {
		c.File.Close()
	}
}

// Send sends a message with descriptors. The socket has room: both sides take turns.
func (c *Control) Send(text string, fds ...int) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	var sent error
	if err := raw.Control(func(fd uintptr) {
		sent = unix.Sendmsg(int(fd), []byte(text), rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
	}); err != nil {
		return err
	}
	return sent
}

// Receive waits for a message, and returns the pid of its sender too.
func (c *Control) Receive(d time.Duration) (text string, pid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return "", 0, err
	}
	_ = c.SetReadDeadline(time.Now().Add(d))
	var buf [64]byte
	n := 0
	if wait := raw.Read(func(fd uintptr) bool {
		pid, n, err = ReceiveNow(fd, buf[:])
		return err != unix.EAGAIN
	}); wait != nil {
		return "", 0, wait
	}
	return string(buf[:n]), pid, err
}

// ReceiveNow reads one message and its sender without waiting. It returns EAGAIN if there is none, io.EOF if no writer is left.
func ReceiveNow(fd uintptr, b []byte) (pid, n int, err error) {
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	oobn := 0
	for {
		n, oobn, _, _, err = unix.Recvmsg(int(fd), b, oob, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			break
		}
	}
	switch {
	case err != nil:
		return 0, 0, err
	case n == 0:
		return 0, 0, io.EOF
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return 0, 0, err
	}
	for i := range messages {
		if cred, err := unix.ParseUnixCredentials(&messages[i]); err == nil {
			pid = int(cred.Pid)
		}
	}
	return pid, n, nil
}
