//go:build linux

package relay

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/belljar/belljar/internal/agent/guest/identity"
	"github.com/belljar/belljar/internal/agent/wire"
	"golang.org/x/sys/unix"
)

// Limits of the search for programs that listen on ports.
const (
	maxProcesses   = 512
	maxDescriptors = 1024 // per process
)

// Ports returns the ports that [Relay.Connect] reaches, sorted, one entry each. The agent's own listeners are at other addresses.
func Ports() (list []wire.Listener, cut bool, err error) {
	found := map[uint16]wire.Listener{}
	inodes := map[string]uint16{}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		if err := readTable(table, found, inodes); err != nil && !os.IsNotExist(err) {
			return nil, false, fmt.Errorf("list ports: %w", err)
		}
	}
	namePrograms(found, inodes)
	list = slices.Collect(maps.Values(found))
	slices.SortFunc(list, func(a, b wire.Listener) int { return cmp.Compare(a.Port, b.Port) })
	if len(list) > wire.MaxListeners {
		return list[:wire.MaxListeners], true, nil
	}
	return list, false, nil
}

// readTable adds the listeners of a table of sockets. Entries of an earlier table have precedence.
func readTable(name string, found map[uint16]wire.Listener, inodes map[string]uint16) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		addr, inode, ok := listener(lines.Text())
		if !ok {
			continue
		}
		if _, known := found[addr.Port()]; !known {
			found[addr.Port()] = wire.Listener{Port: addr.Port(), Address: addr.Addr().String()}
			inodes[inode] = addr.Port()
		}
	}
	return lines.Err()
}

// listener parses a line of /proc/net/tcp or tcp6. It returns true for a listening socket that the loopback addresses reach.
func listener(line string) (addr netip.AddrPort, inode string, ok bool) {
	const listening = "0A"
	fields := strings.Fields(line)
	if len(fields) < 10 || fields[3] != listening {
		return addr, "", false
	}
	host, port, _ := strings.Cut(fields[1], ":")
	raw, err := hex.DecodeString(host)
	n, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(raw)%4 != 0 {
		return addr, "", false
	}
	for i := 0; i < len(raw); i += 4 { // words in the processor's byte order
		binary.BigEndian.PutUint32(raw[i:], binary.NativeEndian.Uint32(raw[i:]))
	}
	ip, ok := netip.AddrFromSlice(raw)
	ip = ip.Unmap()
	ok = ok && (ip.IsUnspecified() || ip == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || ip == netip.IPv6Loopback())
	return netip.AddrPortFrom(ip, uint16(n)), fields[9], ok
}

// namePrograms finds the programs that own the sockets, as far as the agent may see them.
func namePrograms(found map[uint16]wire.Listener, inodes map[string]uint16) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return
	}
	own := identity.Current()
	for _, folder := range folders[:min(len(folders), maxProcesses)] {
		if len(inodes) == 0 {
			return
		}
		pid, err := strconv.Atoi(filepath.Base(folder))
		var st unix.Stat_t
		if err != nil || unix.Stat(folder, &st) != nil {
			continue
		}
		// The kernel shows the descriptors of a process to its own user only.
		_ = own.As(identity.ID{UID: int(st.Uid), GID: int(st.Gid)}, func() error { // without the right the name stays empty
			nameSockets(folder, pid, found, inodes)
			return nil
		})
	}
}

// nameSockets records a process at each of its sockets, unless the socket has one already.
func nameSockets(folder string, pid int, found map[uint16]wire.Listener, inodes map[string]uint16) {
	dir, err := os.Open(folder + "/fd")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxDescriptors) // a process that has ended has no descriptors
	for _, name := range names {
		target, err := os.Readlink(folder + "/fd/" + name)
		inode, ok := strings.CutPrefix(strings.TrimSuffix(target, "]"), "socket:[")
		port, known := inodes[inode]
		if err != nil || !ok || !known {
			continue
		}
		delete(inodes, inode)
		comm, _ := os.ReadFile(folder + "/comm")
		l := found[port]
		l.Pid, l.Program = pid, strings.ToValidUTF8(strings.TrimSuffix(string(comm), "\n"), "�")
		found[port] = l
	}
}
