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

// agentID is the agent's id inside every sandbox: it is root of its own user namespace and nowhere else.
const agentID = 0

// Steps of building a sandbox besides those that every jar has, as a [runtime.StepError] names them.
const (
	stepName     = "hostname"
	stepNetwork  = "network"
	stepInner    = "inner_userns"
	stepCaps     = "capabilities"
	stepLandlock = "landlock"
	stepSeccomp  = "seccomp"
)

// agentCaps is all that the agent keeps, inside its inner user namespace only: to become the sandbox user and to signal it.
var agentCaps = [...]int{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL}

// plan is what one sandbox is built from.
type plan struct {
	birth     *jar.Birth
	workspace runtime.Workspace
	limits    limits
	ids       *idmap.Range
	execDir   int    // the delegated cgroup2 folder, 0 for none
	locks     int    // a descriptor in whose place the agent has the list of file locks
	config    string // the agent's, JSON
	filter    seccomp.Program
	landlock  int // ABI, 0 for none
	lastCap   int
	root      *rootfs.Tree
	image     bool        // root is an unpacked image's
	user      rootfs.User // of programs
	goCache   string      // folder of the host, "" for none
	layers    []runtime.Layer
	disk      *rack.Disk // nil for a workspace in memory
}

// gates are the conversation of the first process with the second: two pipes, which exist in these two only. Each
// closes the ends it does not use, so that the death of one ends the wait of the other.
type gates struct {
	enter gate // the first has entered the inner user namespace
	done  gate // the second has made the network, and later written the maps
}

// gate is the two ends of a pipe.
type gate struct{ read, write forkexec.Arg }

// program writes the birth of a sandbox down in p. The order is the security argument: outer namespaces first, in which
// the root is built and pivoted into; then an inner user and mount namespace, seen from which every mount belongs to a more
// privileged namespace and is locked; then privileges go, and only then does anything of ours run.
func (pl *plan) program(p *forkexec.Program) {
	m := mount.New(p)

	// Until Sync the parent writes our id maps, alongside us; nothing before it needs them.
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
	// Not before Sync: the kernel gives the second a processor of its own only if one is idle as it is forked.
	below := pl.openFolder(p, pl.workspace.Below.Dir != "", pl.workspace.Below.Dir) // only now is it there
	p.Step(stepNetwork)
	// The root will lie over it.
	proc := p.Open(unix.SYS_OPENAT, forkexec.Int(unix.AT_FDCWD), p.Str("/proc"), forkexec.Int(unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC), forkexec.Int(0))
	pl.spawnSecond(p, g, proc)
	p.Step(jar.StepUserNS)
	pl.becomeOuterRoot(p)
	pl.birth.BoundWatches(p)
	root := pl.buildRoot(p, m, image, goCache, below, layers)

	jar.Pivot(p, root)
	pl.enterNetwork(p, g)
	pl.enterInner(p, g)
	// While the second writes the id maps: nothing of this needs them.
	pl.dropPrivileges(p)
	pl.birth.Leave(p)
	// Holds for everything inside, also where there is no cgroup; a command has a tighter one of its own.
	jar.Rlimit(p, unix.RLIMIT_NPROC, uint64(pl.limits.pids))

	pl.awaitInner(p, g)
	p.Step(stepLandlock)
	rules := landlock.Sandbox()
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

// agentEnv is all of the agent's environment: its Go runtime has one processor, since it mostly waits, and little memory,
// since there may be thousands of agents. The agent sets the last two itself where they are missing, which takes longer.
//
// It knows no time zone: it would look for one in the image.
var agentEnv = []string{"TZ=", "GOMAXPROCS=1", "GOTRACEBACK=none", "GOGC=25", "GOMEMLIMIT=64MiB"}

// shortenStart spares the agent's Go runtime what it does at its start for nothing, an eighth of the time until the agent
// listens. It looks in /proc for the processors that its cgroup has, although GOMAXPROCS sets how many to use, and lists all
// mounts for that: it cannot while it may have no descriptors, and gives up. Package os takes them back before main. Its
// monitor sleeps for 20 µs at a time: it sleeps longer where the kernel may be late, up to a millisecond, and so are all
// timeouts of the agent, not of its commands.
func shortenStart(p *forkexec.Program) {
	var own unix.Rlimit // the agent has the same
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err == nil {
		none := &unix.Rlimit{Cur: 0, Max: own.Max}
		p.Call(unix.SYS_PRLIMIT64, forkexec.Int(0), forkexec.Int(unix.RLIMIT_NOFILE), forkexec.Ptr(p, none), forkexec.Int(0))
	}
	p.Call(unix.SYS_PRCTL, forkexec.Int(unix.PR_SET_TIMERSLACK), forkexec.Int(int(time.Millisecond)))
}

// openFolder opens a folder of the host, such as an unpacked image, if it exists. Our ids are still those of its owner:
// the way there may be the owner's alone, and only its contents readable by every user. The descriptor must be of our own
// mount namespace, or nothing below it could be mounted.
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

// secondPid is the second's in the sandbox: the first child of PID 1.
const secondPid = "2"

// openGates makes the two pipes, in the first process.
func openGates(p *forkexec.Program) (g gates) {
	g.enter.read, g.enter.write = p.Pipe()
	g.done.read, g.done.write = p.Pipe()
	return g
}

// spawnSecond starts the process that works alongside the first while that builds the root. It makes the network
// namespace, the slowest step, and it writes the id maps of the inner user namespace: a map of several ids must come
// from the parent namespace, which the first itself leaves for good. The first does not wait for its end, but for what
// it does, and fails if it dies before: the agent reaps it.
func (pl *plan) spawnSecond(p *forkexec.Program, g gates, proc forkexec.Arg) {
	p.Spawn(func() {
		p.Close(g.enter.write)
		p.Close(g.done.read)
		jar.SetDumpable(p) // the first will look into our /proc entry
		p.Call(unix.SYS_UNSHARE, forkexec.Int(unix.CLONE_NEWNET))
		loopback(p)
		openPorts(p, proc)
		g.done.open(p)
		g.enter.await(p)
		if !pl.ids.Shared {
			p.Step(stepInner)
			pl.becomeOuterRoot(p)
			writeFile(p, "/proc/1/gid_map", innerMap(pl.ids.GIDs))
			writeFile(p, "/proc/1/uid_map", innerMap(pl.ids.UIDs))
			g.done.open(p)
		}
	})
	p.Step(stepNetwork)
	p.Close(g.enter.read)
	p.Close(g.done.write)
}

// open lets the other process continue after its await.
func (g gate) open(p *forkexec.Program) {
	p.Call(unix.SYS_WRITE, g.write, p.Str("1"), forkexec.Int(1))
}

// await waits until the other process has opened the gate, and fails with the error of [gateBroken] if that died
// instead: nothing may continue without what it should have done.
func (g gate) await(p *forkexec.Program) {
	p.Call(unix.SYS_READ, g.read, forkexec.Ptr(p, new([1]byte)), forkexec.Int(1))
	p.Expect(1, gateBroken)
}

// gateBroken is the error of both ends of a gate when the other process is dead: what the kernel says to a writer.
const gateBroken = unix.EPIPE

// relayAddr is the loopback's address besides 127.0.0.1. The C library only looks for addresses of IPv4 if an interface has one
// that is not that (AI_ADDRCONFIG). The agent gives names the addresses after it.
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
	copy(more.name[:], "lo:1") // lo itself would lose the address that it has
	more.addr.Family, more.addr.Addr = unix.AF_INET, relayAddr
	p.Call(unix.SYS_IOCTL, sock, forkexec.Int(unix.SIOCSIFADDR), forkexec.Ptr(p, &more))
	p.Close(sock)
}

// openPorts lets the agent, which has no capability in the network namespace, bind the ports below 1024: the relay needs those of
// DNS and of the web. Programs may, too.
func openPorts(p *forkexec.Program, proc forkexec.Arg) {
	fd := p.Open(unix.SYS_OPENAT, proc, p.Str("sys/net/ipv4/ip_unprivileged_port_start"), forkexec.Int(unix.O_WRONLY|unix.O_CLOEXEC), forkexec.Int(0))
	p.Call(unix.SYS_WRITE, fd, p.Str("0"), forkexec.Int(1))
	p.Close(fd)
}

// enterNetwork moves into the network namespace that the second has made. If that has died, its namespace is gone too,
// and there is no other to fall back to: the step fails.
func (pl *plan) enterNetwork(p *forkexec.Program, g gates) {
	p.Step(stepNetwork)
	g.done.await(p)
	ns := p.Open(unix.SYS_OPENAT, forkexec.Int(unix.AT_FDCWD), p.Str("/proc/"+secondPid+"/ns/net"), forkexec.Int(unix.O_RDONLY|unix.O_CLOEXEC), forkexec.Int(0))
	p.Call(unix.SYS_SETNS, ns, forkexec.Int(unix.CLONE_NEWNET))
	p.Close(ns)
}

// enterInner moves into a second user namespace with a mount namespace of its own. The kernel then treats every mount
// as borrowed from a more privileged owner: not even a capable process inside may change or remove it
// (mount_namespaces(7), "Restrictions on mount namespaces").
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

// awaitInner waits until the inner user namespace has its id maps, and proves it: the kernel refuses an id that is not
// mapped.
func (pl *plan) awaitInner(p *forkexec.Program, g gates) {
	p.Step(stepInner)
	uid, gid := forkexec.Int(pl.user.UID), forkexec.Int(pl.user.GID)
	if !pl.ids.Shared {
		g.done.await(p)
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

// dropPrivileges leaves the agent its few capabilities and closes the way to any other: the bounding set is empty, so
// that even the execution of a root-owned file gains nothing. The agent's own execution keeps what can be inherited, which it
// takes from every command.
func (pl *plan) dropPrivileges(p *forkexec.Program) {
	p.Step(stepCaps)
	var keep uint64
	if !pl.ids.Shared {
		for _, c := range agentCaps {
			keep |= 1 << uint(c)
		}
	}
	// What is inherited must be in the bounding set as it becomes so, and only CAP_SETPCAP empties that.
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
