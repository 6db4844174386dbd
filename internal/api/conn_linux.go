package api

import (
	"net"

	"golang.org/x/sys/unix"
)

// limitUnsent sets the option on the connection: one of a listener that also accepts MPTCP, Go's default, is not inherited.
func limitUnsent(tcp *net.TCPConn) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return // it is closed
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBytes) // an error only costs memory
	})
}
