//go:build linux

package native

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/linux/landlock"
	"github.com/belljar/belljar/internal/linux/mount"
	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/linux/seccomp"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/rack"
)

// agentID is the agent's id inside every sandbox: it is root of its own user namespace only.
const agentID = 0

// Steps of building a sandbox in addition to those of every jar, as a [runtime.StepError] names them.
const (
	stepName     = "hostname"
	stepNetwork  = "network"
	stepSettings = "sysctl" // of the network
	stepInner    = "inner_userns"
	stepCaps     = "capabilities"
	stepLandlock = "landlock"
	stepSeccomp  = "seccomp"
)

// agentCaps are all the capabilities that the agent keeps, valid in its inner user namespace only: to become the sandbox's user
// and to signal its processes.
var agentCaps = [...]int{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL}

// plan holds the settings of one sandbox.
type plan struct {
	birth     *jar.Birth
	workspace runtime.Workspace
	limits    limits
	ids       *idmap.Range
	execDir   int    // the delegated cgroup2 folder, 0 for none
	locks     int    // descriptor number that the agent's list of file locks replaces
	config    string // the agent's, JSON
	filter    seccomp.Program
	landlock  int // ABI, 0 for none
	lastCap   int
	root      *rootfs.Tree
	image     bool        // root is an unpacked image
	user      rootfs.User // user of programs
	goCache   string      // folder of the host, "" for none
	devices   string      // folder of the host with the nodes of /dev
	layers    []runtime.Layer
	disk      *rack.Disk // nil for a workspace in memory
	noPTYs    bool       // as in [Runtime]
}

// gates synchronise the first process with the second by two pipes, which exist in these two only. Each process closes the ends
// that it does not use, so that the death of one ends the wait of the other.
type gates struct {
	enter gate // the first has entered the inner user namespace
	done  gate // the second has made the network, and later set its bounds and written the maps
}

// gate has the two ends of a pipe.
type gate struct{ read, write forkexec.Arg }

// program writes the birth of a sandbox into p. The order is the security argument. First come the outer namespaces, in which the
// root is built and pivoted into. Then comes an inner user and mount namespace, for which every mount belongs to a more
// privileged namespace and is locked. Then the privileges are dropped, and only after that does any program of ours run.
func (pl *plan) program(p *forkexec.Program) {
	m := mount.New(p)

	// Until Sync the parent writes our id maps concurrently; no step before it needs them.
	pl.birth.Enter(p)
	p.Step(stepName)
	p.Call(unix.SYS_SETHOSTNAME, p.Str(rootfs.Hostname), forkexec.Int(len(rootfs.Hostname)))
	image := pl.openFolder(p, pl.image, pl.root.Dir)
	goCache := pl.openFolder(p, pl.goCache != "", pl.goCache)
	var layers []*forkexec.Arg
	for _, l := range pl.layers {
		layers = append(layers, pl.openFolder(p, true, l.Dir))
	}
	p.Step(stepInner)
	g := openGates(p)
	p.Step(jar.StepUserNS)
	p.Sync()
	// Not before Sync: the kernel gives the second a processor of its own only if one is idle at the fork.
	below := pl.openFolder(p, pl.workspace.Below.Dir != "", pl.workspace.Below.Dir) // the folder exists only from here on
	p.Step(stepNetwork)
	// The sandbox's root will hide it.
	proc := p.Open(unix.SYS_OPENAT, forkexec.Int(unix.AT_FDCWD), p.Str("/proc"), forkexec.Int(unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC), forkexec.Int(0))
	pl.spawnSecond(p, g, proc)
	p.Step(jar.StepUserNS)
	pl.becomeOuterRoot(p)
	pl.birth.BoundWatches(p)
	root := pl.buildRoot(p, m, image, goCache, below, layers)

	jar.Pivot(p, root)
	pl.enterNetwork(p, g)
	pl.enterInner(p, g)
	// These steps run while the second writes the id maps, which they do not need.
	pl.dropPrivileges(p)
	pl.birth.Leave(p)
	// This limits everything inside, also without a cgroup; a command has a lower limit of its own.
	jar.Rlimit(p, unix.RLIMIT_NPROC, uint64(pl.limits.pids))

	pl.awaitInner(p, g)
	p.Step(stepLandlock)
	rules := landlock.Sandbox(pl.workspace.Lock != "", pl.workspace.ReadOnly)
	if pl.execDir > 0 {
		rules.Open = []int{pl.execDir}
	}
	rules.Append(p, pl.landlock)
	p.Step(stepSeccomp)
	pl.filter.Append(p)

	p.Step(jar.StepAgent)
	shortenStart(p)
	pl.birth.Exec(p, []string{pl.config}, agentEnv)
}

// agentEnv is all of the agent's environment. Its Go runtime gets one processor, since it mostly waits, and little memory, since
// there may be thousands of agents. The agent sets the last two variables itself if they are missing, which takes longer.
//
// TZ is empty: otherwise the agent would look for a time zone in the image.
var agentEnv = []string{"TZ=", "GOMAXPROCS=1", "GOTRACEBACK=none", "GOGC=25", "GOMEMLIMIT=64MiB"}

// shortenStart skips work of the agent's Go runtime that it does not need, an eighth of the time until the agent listens. The
// runtime looks in /proc for its cgroup's processors, although GOMAXPROCS is set, and lists all mounts for that. It gives up
// because it may open no descriptors; package os raises that limit again before main. The runtime's monitor sleeps for 20 µs at a
// time. With a larger timer slack it sleeps up to a millisecond, and all timeouts of the agent become as inexact, but not those
// of its commands.
func shortenStart(p *forkexec.Program) {
	var own unix.Rlimit // the agent has the same limit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err == nil {
		none := &unix.Rlimit{Cur: 0, Max: own.Max}
		p.Call(unix.SYS_PRLIMIT64, forkexec.Int(0), forkexec.Int(unix.RLIMIT_NOFILE), forkexec.Ptr(p, none), forkexec.Int(0))
	}
	p.Call(unix.SYS_PRCTL, forkexec.Int(unix.PR_SET_TIMERSLACK), forkexec.Int(int(time.Millisecond)))
}

// openFolder opens a folder of the host, such as an unpacked image, if it exists. Our ids are still those of its owner: perhaps
// only the owner can reach its path, and only its contents are readable by every user. The descriptor must be of our own mount
// namespace, or nothing below it could be mounted.
func (pl *plan) openFolder(p *forkexec.Program, is bool, path string) *forkexec.Arg {
	if !is {
		return nil
	}
	p.Step(jar.StepImage)
	fd := p.Open(unix.SYS_OPENAT, forkexec.Int(unix.AT_FDCWD), p.Str(path),
		forkexec.Int(unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC), forkexec.Int(0))
	return &fd
}

// becomeOuterRoot takes the ids of the outer namespace.
func (pl *plan) becomeOuterRoot(p *forkexec.Program) {
	if !pl.ids.Shared {
		jar.SetID(p, agentID)
	}
	jar.SetDumpable(p)
}

// secondPid is the pid of the second process in the sandbox: the first child of PID 1.
const secondPid = "2"

// openGates makes the two pipes, in the first process.
func openGates(p *forkexec.Program) (g gates) {
	g.enter.read, g.enter.write = p.Pipe()
	g.done.read, g.done.write = p.Pipe()
	return g
}

// spawnSecond starts a process that works concurrently with the first while that builds the root. It makes the network namespace,
// the slowest step, and writes the id maps of the inner user namespace: a map of several ids must come from the parent namespace,
// which the first leaves for good. The first waits for its results, not for its end, and fails if it dies before. The agent reaps
// it.
func (pl *plan) spawnSecond(p *forkexec.Program, g gates, proc forkexec.Arg) {
	p.Spawn(func() {
		p.Close(g.enter.write)
		p.Close(g.done.read)
		jar.SetDumpable(p) // the first will read our /proc entry
		p.Call(unix.SYS_UNSHARE, forkexec.Int(unix.CLONE_NEWNET))
		loopback(p)
		openPorts(p, proc)
		g.done.open(p)
		boundSockets(p, proc) // while the first enters
		g.enter.await(p)
		if !pl.ids.Shared {
			p.Step(stepInner)
			pl.becomeOuterRoot(p)
			writeFile(p, "/proc/1/gid_map", innerMap(pl.ids.GIDs))
			writeFile(p, "/proc/1/uid_map", innerMap(pl.ids.UIDs))
		}
		g.done.open(p)
	})
	p.Step(stepNetwork)
	p.Close(g.enter.read)
	p.Close(g.done.write)
}

// open lets the other process continue after its await.
func (g gate) open(p *forkexec.Program) {
	p.Call(unix.SYS_WRITE, g.write, p.Str("1"), forkexec.Int(1))
}

// await waits until the other process has opened the gate. If that process died instead, await fails with [gateBroken]: nothing
// may continue without its work.
func (g gate) await(p *forkexec.Program) {
	p.Call(unix.SYS_READ, g.read, forkexec.Ptr(p, new([1]byte)), forkexec.Int(1))
	p.Expect(1, gateBroken)
}

// gateBroken is the error of both ends of a gate when the other process is dead: the kernel's error for a writer.
const gateBroken = unix.EPIPE

// relayAddr is a second address of the loopback. The C library looks for IPv4 addresses only if an interface has an address other
// than 127.0.0.1 (AI_ADDRCONFIG). The agent gives names the addresses after it.
var relayAddr = [4]byte{127, 64, 0, 1}

// loopback brings the loopback up, with its addresses; nothing else exists in the network namespace.
func loopback(p *forkexec.Program) {
	sock := p.Open(unix.SYS_SOCKET, forkexec.Int(unix.AF_INET), forkexec.Int(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), forkexec.Int(0))
	var up struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(up.name[:], "lo")
	up.flags = unix.IFF_UP | unix.IFF_RUNNING
	p.Call(unix.SYS_IOCTL, sock, forkexec.Int(unix.SIOCSIFFLAGS), forkexec.Ptr(p, &up))
	var more struct {
		name [unix.IFNAMSIZ]byte
		addr unix.RawSockaddrInet4
		_    [8]byte
	}
	copy(more.name[:], "lo:1") // lo itself would lose its address
	more.addr.Family, more.addr.Addr = unix.AF_INET, relayAddr
	p.Call(unix.SYS_IOCTL, sock, forkexec.Int(unix.SIOCSIFADDR), forkexec.Ptr(p, &more))
	p.Close(sock)
}

// openPorts lets the agent, which has no capability in the network namespace, bind the ports below 1024: the relay needs those of
// DNS and of the web. Programs can bind them, too.
func openPorts(p *forkexec.Program, proc forkexec.Arg) {
	p.Step(stepSettings)
	fd := p.Open(unix.SYS_OPENAT, proc, p.Str("sys/net/ipv4/ip_unprivileged_port_start"), forkexec.Int(unix.O_WRONLY|unix.O_CLOEXEC), forkexec.Int(0))
	p.Call(unix.SYS_WRITE, fd, p.Str("0"), forkexec.Int(1))
	p.Close(fd)
	p.Step(stepNetwork)
}

// boundSockets bounds memory of sockets that the kernel charges to no cgroup: the connections that a listener's program has not yet accepted,
// and copies of sent packets, which a program can request for their times. Kernels before 6.3 hide the former setting here; older ones have
// the latter for the whole host.
func boundSockets(p *forkexec.Program, proc forkexec.Arg) {
	for _, setting := range [][2]string{{"somaxconn", "128"}, {"tstamp_allow_data", "0"}} {
		fd := p.Open(unix.SYS_OPENAT, proc, p.Str("sys/net/core/"+setting[0]), forkexec.Int(unix.O_WRONLY|unix.O_CLOEXEC), forkexec.Int(0))
		p.UnlessError(func() {
			p.Call(unix.SYS_WRITE, fd, p.Str(setting[1]), forkexec.Int(len(setting[1])))
			p.Close(fd)
		}, unix.ENOENT, unix.EACCES)
	}
}

// enterNetwork moves into the network namespace that the second has made. If the second has died, its namespace is gone too, and
// the step fails: there is no fallback.
func (pl *plan) enterNetwork(p *forkexec.Program, g gates) {
	p.Step(stepNetwork)
	g.done.await(p)
	ns := p.Open(unix.SYS_OPENAT, forkexec.Int(unix.AT_FDCWD), p.Str("/proc/"+secondPid+"/ns/net"), forkexec.Int(unix.O_RDONLY|unix.O_CLOEXEC), forkexec.Int(0))
	p.Call(unix.SYS_SETNS, ns, forkexec.Int(unix.CLONE_NEWNET))
	p.Close(ns)
}

// enterInner moves into a second user namespace with a mount namespace of its own. The kernel then treats every mount as
// belonging to a more privileged namespace: not even a capable process inside may change or remove it (mount_namespaces(7),
// "Restrictions on mount namespaces").
func (pl *plan) enterInner(p *forkexec.Program, g gates) {
	p.Step(stepInner)
	p.Call(unix.SYS_UNSHARE, forkexec.Int(unix.CLONE_NEWUSER|unix.CLONE_NEWNS))
	g.enter.open(p)
	if pl.ids.Shared {
		writeFile(p, "/proc/self/setgroups", "deny")
		writeFile(p, "/proc/self/gid_map", innerMap(pl.ids.GIDs))
		writeFile(p, "/proc/self/uid_map", innerMap(pl.ids.UIDs))
	}
}

// awaitInner waits until the inner user namespace has its id maps. It proves that by using a mapped id: the kernel refuses
// unmapped ones.
func (pl *plan) awaitInner(p *forkexec.Program, g gates) {
	p.Step(stepInner)
	g.done.await(p)
	uid, gid := forkexec.Int(pl.user.UID), forkexec.Int(pl.user.GID)
	if !pl.ids.Shared {
		uid, gid = forkexec.Int(agentID), forkexec.Int(agentID)
	}
	p.Call(unix.SYS_SETRESGID, gid, gid, gid)
	p.Call(unix.SYS_SETRESUID, uid, uid, uid)
}

func writeFile(p *forkexec.Program, path, text string) {
	fd := p.Open(unix.SYS_OPENAT, forkexec.Int(unix.AT_FDCWD), p.Str(path), forkexec.Int(unix.O_WRONLY|unix.O_CLOEXEC), forkexec.Int(0))
	p.Call(unix.SYS_WRITE, fd, p.Str(text), forkexec.Int(len(text)))
	p.Close(fd)
}

// dropPrivileges leaves the agent its few capabilities and prevents any other: the bounding set is empty, so that even the
// execution of a root-owned file gains nothing. The inheritable capabilities survive the agent's own execution; the agent removes
// them from every command.
func (pl *plan) dropPrivileges(p *forkexec.Program) {
	p.Step(stepCaps)
	var keep uint64
	if !pl.ids.Shared {
		for _, c := range agentCaps {
			keep |= 1 << uint(c)
		}
	}
	// A capability must be in the bounding set to become inheritable, and only CAP_SETPCAP can empty that set.
	setCaps(p, keep|1<<unix.CAP_SETPCAP, keep)
	for c := range pl.lastCap + 1 {
		p.Call(unix.SYS_PRCTL, forkexec.Int(unix.PR_CAPBSET_DROP), forkexec.Int(c), forkexec.Int(0), forkexec.Int(0), forkexec.Int(0))
	}
	setCaps(p, keep, keep)
}

func setCaps(p *forkexec.Program, have, inherit uint64) {
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := &[2]unix.CapUserData{
		{Effective: uint32(have), Permitted: uint32(have), Inheritable: uint32(inherit)},
		{Effective: uint32(have >> 32), Permitted: uint32(have >> 32), Inheritable: uint32(inherit >> 32)},
	}
	p.Call(unix.SYS_CAPSET, forkexec.Ptr(p, header), forkexec.Ptr(p, data))
}

// innerMap maps the ids of the outer namespace to themselves.
func innerMap(extents []idmap.Extent) string {
	var b []byte
	for _, e := range extents {
		b = appendMap(b, e.Inside, e.Inside, e.Count)
	}
	return string(b)
}
