//go:build linux

package confine

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxListening is the maximum number of sockets of programs that listen for TCP. The kernel makes their connections, and keeps the data
	// that these receive, before a program accepts them; only then it charges the program's cgroup.
	maxListening = 64
	// maxDatagrams is the maximum number of UDP sockets of a sandbox. Each can keep the parts of a datagram, up to 64 KiB, until the last one
	// (MSG_MORE), for which no cgroup is charged.
	maxDatagrams = 1024
)

// own is the secret of this process, as the filter is all of its threads'. Without a filter it has no effect.
var own secret

// gauge admits calls of which each adds at most one to what it counts. It counts again only when there may be too many.
type gauge struct {
	most  int
	count func() (int, error)
	room  int
}

// admit reports whether another call may continue.
func (g *gauge) admit() bool {
	if g.room <= 0 {
		n, err := g.count()
		if err != nil {
			return false
		}
		g.room = g.most - n
	}
	g.room--
	return g.room >= 0
}

// socketFilter notifies the supervisor of each call for a listening or UDP socket.
func socketFilter(own secret) []unix.SockFilter {
	notify := own.filter(unix.SECCOMP_RET_USER_NOTIF)
	return slices.Concat([]unix.SockFilter{load(0), unless(unix.SYS_LISTEN, uint8(len(notify)))}, notify, []unix.SockFilter{
		load(0), unless(unix.SYS_SOCKET, uint8(len(notify))+6),
		load(arguments), {Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: unix.AF_INET}, unless(unix.AF_INET6, uint8(len(notify))+3),
		load(arguments + 8), {Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf}, unless(unix.SOCK_DGRAM, uint8(len(notify))),
	}, notify)
}

// ListenUDP is [net.ListenUDP] for the agent itself, like [ListenTCP].
func ListenUDP(ip net.IP, port int) (*net.UDPConn, error) {
	r, _, errno := unix.RawSyscall6(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0, uintptr(own[0]), uintptr(own[1]), uintptr(own[2]))
	if errno != 0 {
		return nil, os.NewSyscallError("socket", errno)
	}
	file := os.NewFile(r, "udp")
	defer file.Close()
	if err := unix.Bind(int(r), &unix.SockaddrInet4{Port: port, Addr: [4]byte(ip.To4())}); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	c, err := net.FilePacketConn(file)
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

// ListenTCP is [net.ListenTCP] for the agent itself, whose sockets do not count. A notification of its own would keep its only processor
// from the supervisor.
func ListenTCP(ip net.IP, port int) (*net.TCPListener, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	file := os.NewFile(uintptr(fd), "listener")
	defer file.Close()
	at := &unix.SockaddrInet4{Port: port, Addr: [4]byte(ip.To4())}
	if err := errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.Bind(fd, at)); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	_, _, errno := unix.RawSyscall6(unix.SYS_LISTEN, uintptr(fd), unix.SOMAXCONN, 0, uintptr(own[0]), uintptr(own[1]), uintptr(own[2]))
	if errno != 0 {
		return nil, os.NewSyscallError("listen", errno)
	}
	l, err := net.FileListener(file)
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

// listening returns the number of sockets of programs that listen for TCP in our network namespace, or that of all its TCP sockets if there are few: the
// kernel lists listeners first, but then looks for connections in a table of the whole host, which takes milliseconds.
func listening() (n int, err error) {
	if n, err = sockets(func(protocol string) bool { return strings.HasPrefix(protocol, "TCP") }); err != nil || n <= maxListening/2 {
		return n, err
	}
	ours, err := ownSockets()
	if err != nil {
		return 0, err
	}
	n = 0
	for _, list := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		more, err := countListening(list, ours)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // there may be no IPv6
			return 0, err
		}
		n += more
	}
	return n, nil
}

// ownSockets returns the inodes of this process's sockets.
func ownSockets() (map[string]bool, error) {
	fds, err := os.ReadDir("/proc/self/fd")
	inodes := map[string]bool{}
	for _, entry := range fds {
		fd, _ := strconv.Atoi(entry.Name())
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK {
			inodes[strconv.FormatUint(st.Ino, 10)] = true
		}
	}
	return inodes, err
}

// countListening counts the listening sockets in one of the kernel's lists, without those whose inodes are ours.
func countListening(list string, ours map[string]bool) (n int, err error) {
	f, err := os.Open(list)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	const listens = "0A"
	lines := bufio.NewScanner(f)
	lines.Scan() // the titles
	for lines.Scan() {
		fields := bytes.Fields(lines.Bytes())
		if len(fields) < 10 || string(fields[3]) != listens {
			break
		}
		if !ours[string(fields[9])] {
			n++
		}
	}
	return n, lines.Err()
}

// counted are the protocols whose sockets the kernel counts one by one. It counts a socket of MPTCP again each time that it listens.
var counted = []string{"TCP", "TCPv6", "UNIX", "UNIX-STREAM", "NETLINK", "RAW", "RAWv6"}

// datagrams returns the number of UDP sockets in our network namespace. The kernel counts those without an address only among all sockets, so
// those of TCP that are not connected are among them.
func datagrams() (n int, err error) {
	isCounted := func(protocol string) bool { return slices.Contains(counted, protocol) }
	before, err := sockets(isCounted)
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile("/proc/self/net/sockstat")
	if err != nil {
		return 0, err
	}
	after, err := sockets(isCounted)
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(text) // sockets: used N
	if len(fields) < 3 {
		return 0, errors.New("the kernel does not count sockets")
	}
	n, err = strconv.Atoi(string(fields[2]))
	return max(n-min(before, after), 0), err // sockets may have been closed meanwhile
}

// sockets returns the number of sockets of some protocols in our network namespace, whichever processes hold them.
func sockets(of func(protocol string) bool) (n int, err error) {
	table, err := os.ReadFile("/proc/self/net/protocols")
	if err != nil {
		return 0, err
	}
	found := false
	for line := range bytes.Lines(table) {
		if fields := bytes.Fields(line); len(fields) > 2 && string(fields[0]) != "protocol" && of(string(fields[0])) {
			living, err := strconv.Atoi(string(fields[2]))
			if err != nil {
				return 0, err
			}
			n, found = n+max(living, 0), true
		}
	}
	if !found {
		return 0, errors.New("the kernel does not count these sockets")
	}
	return n, nil
}
