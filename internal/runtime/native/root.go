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

// Capacity of the root itself, in addition to its parts.
const (
	rootBytes  = 1 << 20
	rootInodes = 512
)

// buildRoot makes the whole root file system and returns it open. image is the open folder of an unpacked image, nil for the host's
// own programs. goCache is the folder of a Go build cache, nil for none. below is the file system of a workspace that begins with
// files, nil for none. layers are the folders of the plan's layers.
func (pl *plan) buildRoot(p *forkexec.Program, m *mount.Builder, image, goCache, below *forkexec.Arg, layers []*forkexec.Arg) forkexec.Arg {
	p.Step(jar.StepMount)
	b := &rootBuilder{rootfs.NewBuilder(p, m, pl.root, image, rootBytes, rootInodes), p, m}
	for _, name := range []string{"proc", "dev", "tmp", "run", "workspace"} {
		b.Dir(name)
	}
	b.Parts(pl.root.Parts, "", "run") // the sandbox's own /run will be mounted over it
	for i, l := range pl.layers {
		name := l.Path()[1:]
		b.Dir(name)
		m.BindOpen(*layers[i], b.Root, name, rootfs.Sealed)
	}
	b.proc(pl)
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

// rootBuilder appends the parts that every sandbox has of its own.
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

// Folders of the file system that /workspace and /tmp share. It is mounted below /tmp, where programs see the second folder. The
// last two are for the overlay of a Go build cache.
const (
	sharedWorkspace = "tmp/" + overlay.Workspace
	sharedTmp       = "tmp/files"
	sharedUpper     = "tmp/upper"
	sharedWork      = "tmp/work"
	sharedInodes    = 2   // for the first two
	overlayInodes   = 260 // for the others
)

// executable mounts /workspace and /tmp if programs can be executed in them: two folders of one file system with the size of the
// workspace, so that compilers and linkers have room for their temporary files.
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

// sharedInodes returns the inode limit of that file system.
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

// emptyDir is a folder of the root that stays empty: a file system of its own is mounted over it.
const emptyDir = "tmp"

// proc mounts the proc file system.
func (b *rootBuilder) proc(pl *plan) {
	b.p.Step(jar.StepProc)
	proc := b.m.FS("proc", mount.NoSUID|mount.NoDev|mount.NoExec)
	b.m.Attach(proc, b.Root, "proc")
	list := b.p.Open(unix.SYS_OPENAT, proc, b.p.Str("locks"), forkexec.Int(unix.O_RDONLY|unix.O_CLOEXEC), forkexec.Int(0))
	b.p.Call(unix.SYS_DUP3, list, forkexec.Int(pl.locks), forkexec.Int(0))
	b.p.Close(list)
	b.m.HideFiles(proc, rootfs.HiddenFiles(), pl.devices+"/null")
	b.m.HideFolders(proc, rootfs.HiddenFolders(), b.Root, emptyDir)
	for _, name := range rootfs.ReadOnly() {
		b.m.Protect(proc, name, mount.ReadOnly|mount.NoSUID|mount.NoDev|mount.NoExec)
	}
	b.m.HideFiles(proc, rootfs.HiddenSettings(), pl.devices+"/null")
	// The sandbox's own /run will hide these files.
	for _, f := range [][3]string{{"run/boot_id", randomUUID(), rootfs.BootID}, {"run/hostname", rootfs.Hostname, rootfs.HostnameFile}} {
		b.File(f[0], f[1]+"\n")
		b.m.BindAt(b.Root, f[0], proc, f[2], rootfs.Sealed)
	}
}

// randomUUID returns a UUID of version 4, like the kernel's.
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
		b.m.Bind(pl.devices+"/"+name, dev, name, mount.NoSUID|mount.NoExec)
	}
	for _, l := range rootfs.DeviceLinks() {
		b.p.Call(unix.SYS_SYMLINKAT, b.p.Str(l[1]), dev, b.p.Str(l[0]))
	}
	b.p.Call(unix.SYS_MKDIRAT, dev, b.p.Str("pts"), forkexec.Int(0o755))
	b.p.Call(unix.SYS_MKDIRAT, dev, b.p.Str("shm"), forkexec.Int(0o755))
	// The sandbox has a devpts of its own: the host's terminals do not exist here.
	terminals := [][2]string{{"newinstance", ""}, {"mode", "0620"}, {"max", "64"}}
	if pl.noPTYs { // the agent still opens them
		terminals = append(terminals, [2]string{"ptmxmode", "0600"}, [2]string{"uid", strconv.Itoa(pl.user.UID)}, [2]string{"gid", strconv.Itoa(pl.user.GID)})
	} else {
		terminals = append(terminals, [2]string{"ptmxmode", "0666"})
	}
	b.m.MountFS("devpts", dev, "pts", mount.NoSUID|mount.NoExec, terminals...)
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
