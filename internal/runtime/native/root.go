//go:build linux

package native

import (
	"crypto/rand"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/linux/mount"
	"github.com/belljar/belljar/internal/linux/overlay"
	"github.com/belljar/belljar/internal/linux/rootfs"
)

// How much the root itself holds besides what its parts need.
const (
	rootBytes  = 1 << 20
	rootInodes = 512
)

// buildRoot makes the whole root file system and returns it open. image is the open folder of an unpacked image, nil for the
// host's own programs; goCache that of a Go build cache, below the file system of a workspace that begins with files, nil for none;
// layers those of the plan's layers.
func (pl *plan) buildRoot(p *forkexec.Program, m *mount.Builder, image, goCache, below *forkexec.Arg, layers []*forkexec.Arg) forkexec.Arg {
	p.Step(jar.StepMount)
	b := &rootBuilder{rootfs.NewBuilder(p, m, pl.root, image, rootBytes, rootInodes), p, m}
	for _, name := range []string{"proc", "dev", "tmp", "run", "workspace"} {
		b.Dir(name)
	}
	b.Parts(pl.root.Parts, "", "run") // the sandbox's own /run will be mounted over that
	for i, l := range pl.layers {
		name := l.Path()[1:]
		b.Dir(name)
		m.BindOpen(*layers[i], b.Root, name, rootfs.Sealed)
	}
	b.proc(pl.locks)
	p.Step(jar.StepMount)
	b.tmpfs("run", pl.limits.run, pl.limits.inodes, "0755", true, pl.user)
	if pl.disk != nil {
		pl.disk.Attach(m, b.Root, "workspace")
		b.tmpfs("tmp", pl.limits.tmp, pl.limits.inodes, "1777", !pl.workspace.Exec, pl.user)
	} else if pl.workspace.Exec {
		b.executable(pl, goCache, below)
	} else {
		if below != nil {
			b.m.BindAt(*below, overlay.Workspace, b.Root, "workspace", mount.NoSUID|mount.NoDev|mount.NoExec)
		} else {
			b.tmpfs("workspace", pl.workspace.Bytes, pl.workspace.Inodes, "0755", true, pl.user)
		}
		b.tmpfs("tmp", pl.limits.tmp, pl.limits.inodes, "1777", true, pl.user)
	}
	for _, part := range pl.root.Parts {
		if part.Kind == rootfs.BindWritable {
			b.BindOver(part.Target, part.Name, 0)
		}
	}
	b.dev(pl)
	p.Step(jar.StepMount)
	m.SetAttr(b.Root, rootfs.Sealed, false)
	return b.Root
}

// rootBuilder appends what every sandbox has of its own.
type rootBuilder struct {
	*rootfs.Builder
	p *forkexec.Program
	m *mount.Builder
}

// tmpfs mounts a writable memory file system with hard caps, owned by the sandbox's user.
func (b *rootBuilder) tmpfs(name string, bytes, inodes int64, mode string, noexec bool, owner rootfs.User) {
	attr := mount.NoSUID | mount.NoDev
	if noexec {
		attr |= mount.NoExec
	}
	b.m.MountFS("tmpfs", b.Root, name, attr, mount.Tmpfs(bytes, inodes, mode, owner.UID, owner.GID)...)
}

// The folders of the file system that /workspace and /tmp share. It lies below /tmp, where programs see the second. The last
// two belong to the overlay of a Go build cache.
const (
	sharedWorkspace = "tmp/" + overlay.Workspace
	sharedTmp       = "tmp/files"
	sharedUpper     = "tmp/upper"
	sharedWork      = "tmp/work"
	sharedInodes    = 2   // of the first two
	overlayInodes   = 260 // of the others
)

// executable mounts /workspace and /tmp where programs in them may be executed: two folders of one file system with the cap
// of the workspace, so that compilers and linkers have room for their temporary files.
func (b *rootBuilder) executable(pl *plan, goCache, below *forkexec.Arg) {
	if below != nil {
		b.m.BindOpen(*below, b.Root, "tmp", mount.NoSUID|mount.NoDev)
	} else {
		b.tmpfs("tmp", pl.workspace.Bytes, pl.sharedInodes(), "0755", false, pl.user)
		b.userDir(pl, sharedWorkspace, 0o755)
	}
	b.userDir(pl, sharedTmp, 0o1777)
	b.m.BindAt(b.Root, sharedWorkspace, b.Root, "workspace", 0)
	if goCache != nil {
		b.goCache(pl, *goCache)
	}
	b.m.BindAt(b.Root, sharedTmp, b.Root, "tmp", 0)
}

// sharedInodes is how many inodes the file system has.
func (pl *plan) sharedInodes() int64 {
	inodes := pl.workspace.Inodes + sharedInodes
	if pl.goCache != "" {
		inodes += overlayInodes
	}
	return inodes
}

// userDir makes a folder of the sandbox's user.
func (b *rootBuilder) userDir(pl *plan, name string, mode int) {
	b.p.Call(unix.SYS_MKDIRAT, b.Root, b.p.Str(name), forkexec.Int(mode))
	b.p.Call(unix.SYS_FCHOWNAT, b.Root, b.p.Str(name), forkexec.Int(pl.user.UID), forkexec.Int(pl.user.GID), forkexec.Int(0))
}

// emptyDir is a folder of the root that is empty for ever: a file system of its own is mounted over it.
const emptyDir = "tmp"

// proc mounts the processes' file system. locks is the descriptor that its list of locks gets.
func (b *rootBuilder) proc(locks int) {
	b.p.Step(jar.StepProc)
	proc := b.m.FS("proc", mount.NoSUID|mount.NoDev|mount.NoExec)
	b.m.Attach(proc, b.Root, "proc")
	list := b.p.Open(unix.SYS_OPENAT, proc, b.p.Str("locks"), forkexec.Int(unix.O_RDONLY|unix.O_CLOEXEC), forkexec.Int(0))
	b.p.Call(unix.SYS_DUP3, list, forkexec.Int(locks), forkexec.Int(0))
	b.p.Close(list)
	b.m.HideFiles(proc, rootfs.HiddenFiles())
	b.m.HideFolders(proc, rootfs.HiddenFolders(), b.Root, emptyDir)
	for _, name := range rootfs.ReadOnly() {
		b.m.Protect(proc, name, mount.ReadOnly|mount.NoSUID|mount.NoDev|mount.NoExec)
	}
	b.m.HideFiles(proc, rootfs.HiddenSettings())
	// The sandbox's own /run will lie over this file.
	const own = "run/boot_id"
	b.File(own, randomUUID()+"\n")
	b.m.BindAt(b.Root, own, proc, rootfs.BootID, rootfs.Sealed)
}

// randomUUID is one of version 4, as the kernel's are.
func randomUUID() string {
	var u [16]byte
	rand.Read(u[:])
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

func (b *rootBuilder) dev(pl *plan) {
	b.p.Step(jar.StepDev)
	dev := b.m.FS("tmpfs", mount.NoSUID|mount.NoExec, [2]string{"size", "64k"}, [2]string{"nr_inodes", "64"}, [2]string{"mode", "755"})
	b.m.Attach(dev, b.Root, "dev")
	for _, name := range rootfs.Devices() {
		b.FileIn(dev, name, "")
		b.m.Bind("/dev/"+name, dev, name, mount.NoSUID|mount.NoExec)
	}
	for _, l := range rootfs.DeviceLinks() {
		b.p.Call(unix.SYS_SYMLINKAT, b.p.Str(l[1]), dev, b.p.Str(l[0]))
	}
	b.p.Call(unix.SYS_MKDIRAT, dev, b.p.Str("pts"), forkexec.Int(0o755))
	b.p.Call(unix.SYS_MKDIRAT, dev, b.p.Str("shm"), forkexec.Int(0o755))
	// A memory-backed terminal layer of our own: the host's terminals do not exist here.
	b.m.MountFS("devpts", dev, "pts", mount.NoSUID|mount.NoExec, [2]string{"newinstance", ""}, [2]string{"ptmxmode", "0666"}, [2]string{"mode", "0620"}, [2]string{"max", "64"})
	b.m.MountFS("tmpfs", dev, "shm", mount.NoSUID|mount.NoDev|mount.NoExec, mount.Tmpfs(pl.limits.shm, pl.limits.inodes, "1777", pl.user.UID, pl.user.GID)...)
	b.m.SetAttr(dev, mount.ReadOnly|mount.NoSUID|mount.NoExec, false)
}

// appendMap appends a line of an id map.
func appendMap(b []byte, inside, outside, count int) []byte {
	b = strconv.AppendInt(b, int64(inside), 10)
	b = strconv.AppendInt(append(b, ' '), int64(outside), 10)
	b = strconv.AppendInt(append(b, ' '), int64(count), 10)
	return append(b, '\n')
}
