//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// listenHere opens a listening socket of the loopback.
func listenHere() (fd int, at unix.Sockaddr, err error) {
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, nil, err
	}
	if err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err == nil {
		err = unix.Listen(fd, 4096)
	}
	if err == nil {
		at, err = unix.Getsockname(fd)
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, at, err
}

// backlog makes as many connections as it can that no program accepts, and as many sockets for them. Its arguments are the limits of both.
func backlog(r *report, args []string) {
	perSocket, err := strconv.Atoi(args[0])
	r.works("parse", err)
	sockets, err := strconv.Atoi(args[1])
	r.works("parse", err)
	fd, at, err := listenHere()
	r.works("listen", err)
	// The queue of the listener is that of each connection.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, 1<<24)
	if size, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF); err != nil || size > 256<<10 {
		r.breach("each connection of a listener can hold %d bytes: %v", size, err)
	}
	made, data, more := 0, make([]byte, 64<<10), true
	for more && made < 4*perSocket {
		c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			break
		}
		more = false // without room the kernel ignores the connection, which then waits
		if err = unix.Connect(c, at); err == unix.EINPROGRESS {
			n, _ := unix.Poll([]unix.PollFd{{Fd: int32(c), Events: unix.POLLOUT}}, 500)
			more = n == 1
		}
		if more {
			unix.Sendto(c, data, unix.MSG_DONTWAIT, nil)
			made++
		}
		// A reset leaves the other end to the listener.
		unix.SetsockoptLinger(c, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		unix.Close(c)
	}
	fmt.Printf("%d connections that no program has accepted\n", made)
	if made > perSocket || made == 0 {
		r.breach("none, or more than %d connections for a listener", perSocket)
	}
	listening := 1
	for range 2 * sockets {
		if _, _, err = listenHere(); err != nil {
			break
		}
		listening++
	}
	fmt.Printf("%d sockets listen: %v\n", listening, err)
	if listening > sockets {
		r.breach("more than %d sockets listen", sockets)
	}
}

// queued makes the kernel keep copies of sent packets in a socket's queue of errors. Its argument is the most bytes that one may hold after
// a request with each packet, which older kernels grant.
func queued(r *report, args []string) {
	most, err := strconv.Atoi(args[0])
	r.works("parse", err)
	inbox, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	r.works("socket", err)
	r.works("bind", unix.Bind(inbox, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at, err := unix.Getsockname(inbox)
	r.works("address", err)
	closed := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: 9}
	const software = 1<<1 | 1<<4 // of the time at which a packet was sent
	request := make([]byte, unix.CmsgSpace(4))
	binary.NativeEndian.PutUint64(request, uint64(unix.CmsgLen(4)))
	binary.NativeEndian.PutUint32(request[8:], unix.SOL_SOCKET)
	binary.NativeEndian.PutUint32(request[12:], unix.SO_TIMESTAMPING)
	binary.NativeEndian.PutUint32(request[16:], 1<<1)
	for _, attack := range []struct {
		what          string
		level, option int
		value         int
		to            unix.Sockaddr
		control       []byte
		most          int
	}{
		{"times of packets", unix.SOL_SOCKET, unix.SO_TIMESTAMPING, software, at, nil, 0},
		{"times of packets, new", unix.SOL_SOCKET, 65, software, at, nil, 0},
		{"times of each packet", unix.SOL_SOCKET, unix.SO_RCVBUF, 8 << 20, at, request, most},
		{"errors", unix.IPPROTO_IP, unix.IP_RECVERR, 1, closed, nil, 0},
	} {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		r.works("socket", err)
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 8<<20)
		err = unix.SetsockoptInt(fd, attack.level, attack.option, attack.value)
		packet := make([]byte, 30_000)
		for range 200 {
			unix.Sendmsg(fd, packet, attack.control, attack.to, 0)
		}
		held := 0
		for {
			n, _, _, _, err := unix.Recvmsg(fd, packet, make([]byte, 512), unix.MSG_ERRQUEUE)
			if err != nil {
				break
			}
			held += n
		}
		fmt.Printf("%s: %d bytes, option: %v\n", attack.what, held, err)
		if held > attack.most {
			r.breach("%s: %d bytes in the queue of a socket, more than %d", attack.what, held, attack.most)
		}
		unix.Close(fd)
	}
	r.works("SO_TIMESTAMP", unix.SetsockoptInt(inbox, unix.SOL_SOCKET, unix.SO_TIMESTAMP, 1))
}

// corked keeps parts of datagrams in sockets. Its argument is the most sockets that may keep one.
func corked(r *report, args []string) {
	most, err := strconv.Atoi(args[0])
	r.works("parse", err)
	to := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: 9}
	part := make([]byte, 1000)
	kept := 0
	for range 2 * most {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			fmt.Printf("one more: %v\n", err)
			break
		}
		if err := unix.Sendto(fd, part, unix.MSG_MORE, to); err != nil {
			fmt.Printf("one more: %v\n", err)
			break
		}
		kept++
	}
	fmt.Printf("%d sockets keep a part of a datagram\n", kept)
	if kept > most || kept == 0 {
		r.breach("%d sockets keep a part of a datagram, must be 1 to %d", kept, most)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	r.works("socket pair", err)
	r.works("a whole message", unix.Sendto(pair[0], slices.Repeat(part, 2), 0, nil))
}
