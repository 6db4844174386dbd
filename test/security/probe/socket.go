//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sockets opens a socket of every family. Only four are for programs; the others are entries to the kernel.
func sockets(r *report, _ []string) {
	for _, family := range []uintptr{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6} {
		r.works(fmt.Sprintf("socket family %d", family), openSocket(family, unix.SOCK_STREAM, 0))
	}
	r.works("netlink route", openSocket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE))
	refusal := []error{unix.EAFNOSUPPORT, unix.EPERM}
	for family := uintptr(3); family < 48; family++ {
		if family == unix.AF_INET6 || family == unix.AF_NETLINK {
			continue
		}
		for _, kind := range []uintptr{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_SEQPACKET} {
			r.refused(fmt.Sprintf("socket family %d type %d", family, kind), openSocket(family, kind, 0), refusal...)
			r.refused(fmt.Sprintf("socket family %d type %d, high bits set", family, kind), openSocket(highBi|family, kind, 0), refusal...)
		}
	}
	for protocol := uintptr(1); protocol < 24; protocol++ {
		r.refused(fmt.Sprintf("netlink protocol %d", protocol), openSocket(unix.AF_NETLINK, unix.SOCK_RAW, protocol), refusal...)
		r.refused(fmt.Sprintf("netlink protocol %d, high bits set", protocol), openSocket(unix.AF_NETLINK, unix.SOCK_RAW, highBi|protocol), refusal...)
	}
	r.refused("raw ip", openSocket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP))
	r.refused("ping", openSocket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP), unix.EPROTONOSUPPORT)
	r.refused("ping of IPv6", openSocket(unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6), unix.EPROTONOSUPPORT)
}

func openSocket(family, kind, protocol uintptr) error {
	fd, _, errno := unix.RawSyscall(unix.SYS_SOCKET, family, kind|unix.SOCK_CLOEXEC, protocol)
	if errno != 0 {
		return errno
	}
	unix.Close(int(fd))
	return nil
}

// netlink tries to change the network: add an address to the loopback, a route, a link.
func netlink(r *report, _ []string) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	r.works("netlink socket", err)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for name, kind := range map[string]uint16{"new address": unix.RTM_NEWADDR, "new route": unix.RTM_NEWROUTE, "new link": unix.RTM_NEWLINK} {
		message := make([]byte, 16+16)
		message[0] = byte(len(message))
		message[4], message[5] = byte(kind), byte(kind>>8)
		message[6], message[7] = unix.NLM_F_REQUEST|unix.NLM_F_ACK, byte(unix.NLM_F_CREATE>>8)
		r.works("send "+name, unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
		answer := make([]byte, 4096)
		n, _, err := unix.Recvfrom(fd, answer, 0)
		r.works("receive", err)
		if err == nil && n >= 20 {
			errno := -int32(uint32(answer[16]) | uint32(answer[17])<<8 | uint32(answer[18])<<16 | uint32(answer[19])<<24)
			var result error
			if errno != 0 {
				result = unix.Errno(errno)
			}
			r.refused(name, result)
		}
	}
	links, err := net.Interfaces()
	r.works("list interfaces", err)
	for _, l := range links {
		// A kernel with tunnel modules loaded puts their fallback devices into every network namespace. They are down.
		if l.Name != "lo" && l.Flags&net.FlagUp != 0 {
			r.breach("interface %s is up", l.Name)
		}
	}
}

// dial connects to each address (network:address, "@" for an abstract unix socket). It must not succeed.
func dial(r *report, args []string) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	r.works("listen on our own loopback", err)
	if err == nil {
		c, err := net.DialTimeout("tcp", server.Addr().String(), time.Minute)
		r.works("dial our own loopback", err)
		if err == nil {
			c.Close()
		}
		server.Close()
	}
	for _, arg := range args {
		network, address, ok := strings.Cut(arg, ":")
		if !ok {
			r.breach("control: %q is not network:address", arg)
			continue
		}
		c, err := net.DialTimeout(network, address, 2*time.Second)
		if err == nil { // for UDP this proves nothing yet; the peer identifies the probe by it
			_, err = c.Write([]byte("inside"))
		}
		if c != nil {
			c.Close()
		}
		r.refused("dial "+arg, err)
	}
}

// resolve looks up names, which must not resolve.
func resolve(r *report, names []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, name := range names {
		addresses, err := net.DefaultResolver.LookupHost(ctx, name)
		r.refused("resolve "+name, err)
		if err == nil {
			r.breach("%s is at %v", name, addresses)
		}
	}
}

// bind leaves a unix socket at each path.
func bind(r *report, paths []string) {
	for _, path := range paths {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		r.works("socket", err)
		r.works("bind "+path, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	}
}

// terminal injects input into its own terminal (CVE-2017-5226). If the terminal is shared, the host's shell reads it.
func terminal(r *report, _ []string) {
	if tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0); err == nil {
		tty.Close()
		r.breach("there is a controlling terminal")
	}
	signal.Ignore(syscall.SIGHUP) // the end of the probe's own terminal
	unix.Setsid()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	r.works("open /dev/ptmx", err)
	if err != nil {
		return
	}
	defer master.Close()
	r.works("unlock", unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	r.works("number", err)
	slave, err := os.OpenFile("/dev/pts/"+itoa(n), os.O_RDWR, 0)
	r.works("open the slave", err)
	if err != nil {
		return
	}
	defer slave.Close()
	for name, request := range map[string]uintptr{"TIOCSTI": unix.TIOCSTI, "TIOCLINUX": unix.TIOCLINUX, "TIOCSETD": unix.TIOCSETD} {
		// A kernel without these requests returns another error; the last line distinguishes it from a terminal that is
		// none.
		r.refused(name, call(unix.SYS_IOCTL, slave.Fd(), request, cstr("x")), unix.EPERM, unix.ENOTTY)
		r.refused(name+", high bits set", call(unix.SYS_IOCTL, slave.Fd(), highBi|request, cstr("x")), unix.EPERM, unix.ENOTTY)
	}
	_, err = unix.IoctlGetWinsize(int(slave.Fd()), unix.TIOCGWINSZ)
	r.works("TIOCGWINSZ", err)
}
