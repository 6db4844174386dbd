//go:build linux

package guest_test

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// The limits as documented.
const (
	maxListening = 64
	maxDatagrams = 1024
)

// many opens sockets until make fails, at most most.
func many(most, kind int, use func(fd int) error) (fds []int, err error) {
	for range most {
		fd, err := unix.Socket(unix.AF_INET6, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fds, err
		}
		fds = append(fds, fd)
		if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet6{}), use(fd)); err != nil {
			return fds, err
		}
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// listeners checks that 64 sockets can listen, whatever listened before, and that those of other families do not count. At the limit, no call passes:
// the filter does not see the family.
func listeners() error {
	for range 2 {
		fds, err := many(maxListening+1, unix.SOCK_STREAM, func(fd int) error { return unix.Listen(fd, 5) })
		if len(fds) != maxListening+1 || !errors.Is(err, unix.ENOBUFS) {
			return fmt.Errorf("%d sockets listen, want %d and %v: %w", len(fds)-1, maxListening, unix.ENOBUFS, err)
		}
		unix.Close(fds[0])
		for range 4 {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err = errors.Join(err, unix.Bind(fd, &unix.SockaddrUnix{})); err != nil {
				return err
			}
			err = unix.Listen(fd, 5)
			unix.Close(fd)
			if err != nil {
				return fmt.Errorf("listen on a unix socket: %w", err)
			}
		}
		closeAll(fds[1:])
	}
	return nil
}

// datagrams checks that there can be 1024 UDP sockets, with and without an address, and that others do not count.
func datagrams() error {
	for range 2 {
		others, err := many(maxListening/2, unix.SOCK_STREAM, func(fd int) error { return unix.Listen(fd, 5) })
		if err != nil {
			return err
		}
		for range 100 {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
			if err != nil {
				return err
			}
			others = append(others, fd)
		}
		if fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP); err == nil { // not on each kernel
			others = append(others, fd)
			for range 200 { // the kernel counts it each time
				if err := unix.Listen(fd, 5); err != nil {
					return err
				}
			}
		}
		var fds []int
		for len(fds) <= maxDatagrams {
			fd, refused := unix.Socket(unix.AF_INET+len(fds)%2*(unix.AF_INET6-unix.AF_INET), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
			if err = refused; err != nil {
				break
			}
			fds = append(fds, fd)
			if len(fds)%3 == 0 {
				unix.Sendto(fd, []byte("x"), unix.MSG_MORE, &unix.SockaddrInet6{Port: 9})
			}
		}
		if len(fds) < maxDatagrams-1 || len(fds) > maxDatagrams || err != unix.ENOBUFS {
			return fmt.Errorf("%d UDP sockets, want about %d: %w", len(fds), maxDatagrams, err)
		}
		closeAll(fds)
		closeAll(others)
	}
	return nil
}
