//go:build linux

package native

import (
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/mount"
	"github.com/belljar/belljar/internal/linux/rootfs"
)

const sealed = mount.ReadOnly | mount.NoSUID | mount.NoDev

// How much the root itself holds beside what its parts need.
const (
	rootBytes  = 1 << 20
	rootInodes = 512
)

// buildRoot makes the whole root file system and returns it open. It is staged over /proc, the one folder that every
// Linux has and that we do not need until we have our own. image is the open folder of an unpacked image, if it has one.
func (pl *plan) buildRoot(p *forkexec.Program, m *mount.Builder, image forkexec.Arg) forkexec.Arg {
	p.Step(stepMount)
	p.Call(unix.SYS_UMASK, forkexec.Int(0))
	bytes, inodes := pl.root.Room()
	root := m.FS("tmpfs", mount.NoSUID|mount.NoDev,
		[2]string{"size", strconv.FormatInt(rootBytes+bytes, 10)}, [2]string{"nr_inodes", strconv.FormatInt(rootInodes+inodes, 10)},
		[2]string{"mode", "755"})
	m.Attach(root, forkexec.Int(unix.AT_FDCWD), "/proc")

	b := &rootBuilder{p: p, m: m, root: root, made: map[string]bool{".": true}, covers: map[string]forkexec.Arg{}}
	if pl.image {
		b.sources = map[string]forkexec.Arg{".": image}
	}
	for _, name := range []string{"proc", "dev", "tmp", "run", "workspace"} {
		b.dir(name)
	}
	for _, part := range pl.root.Parts {
		b.part(part)
	}
	b.proc()
	p.Step(stepMount)
	b.tmpfs("workspace", pl.workspace.Bytes, pl.workspace.Inodes, "0755", !pl.workspace.Exec, pl.user)
	b.tmpfs("tmp", pl.limits.tmp, pl.limits.inodes, "1777", true, pl.user)
	b.tmpfs("run", pl.limits.run, pl.limits.inodes, "0755", true, pl.user)
	for _, part := range pl.root.Parts {
		if part.Kind == rootfs.Again {
			b.m.BindAt(b.root, part.Target, b.covered(part), path.Base(part.Name), 0)
		}
	}
	b.dev(pl)
	p.Step(stepMount)
	m.SetAttr(root, sealed, false)
	return root
}

// rootBuilder appends the parts of a root file system.
type rootBuilder struct {
	p       *forkexec.Program
	m       *mount.Builder
	root    forkexec.Arg
	made    map[string]bool
	sources map[string]forkexec.Arg // open folders of the image; nil for the host
	covers  map[string]forkexec.Arg // open folders of the root in which something is covered
}

func (b *rootBuilder) dir(name string) {
	if b.made[name] {
		return
	}
	b.dir(path.Dir(name))
	b.p.Call(unix.SYS_MKDIRAT, b.root, b.p.Str(name), forkexec.Int(0o755))
	b.made[name] = true
}

func (b *rootBuilder) link(name, target string) {
	b.dir(path.Dir(name))
	b.p.Call(unix.SYS_SYMLINKAT, b.p.Str(target), b.root, b.p.Str(name))
}

func (b *rootBuilder) file(name, text string) {
	b.dir(path.Dir(name))
	fd := b.create(b.root, name)
	if text != "" {
		b.p.Call(unix.SYS_WRITE, fd, b.p.Str(text), forkexec.Int(len(text)))
	}
	b.p.Close(fd)
}

func (b *rootBuilder) create(dir forkexec.Arg, name string) forkexec.Arg {
	return b.m.Temp(unix.SYS_OPENAT, dir, b.p.Str(name), forkexec.Int(unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC), forkexec.Int(0o644))
}

// part makes one part. Those that are again what is made later have to wait for it.
func (b *rootBuilder) part(p rootfs.Part) {
	switch p.Kind {
	case rootfs.Folder:
		b.dir(p.Name)
	case rootfs.Link:
		b.link(p.Name, p.Target)
	case rootfs.Text:
		if !p.Over {
			b.file(p.Name, p.Text)
			return
		}
		// It lies where the sandbox's own /run will be mounted, and nobody sees it.
		hidden := "run/" + path.Base(p.Name)
		b.file(hidden, p.Text)
		b.m.BindAt(b.root, hidden, b.covered(p), path.Base(p.Name), sealed)
	case rootfs.Bind:
		if p.File {
			b.file(p.Name, "")
		} else {
			b.dir(p.Name)
		}
		b.bind(p)
	}
}

// bind shows a file or folder of the host by its path, one of an image below the open folders that it lies in.
func (b *rootBuilder) bind(p rootfs.Part) {
	if b.sources == nil {
		b.m.Bind("/"+p.Source, b.root, p.Name, sealed)
		return
	}
	b.m.BindAt(b.source(path.Dir(p.Source)), path.Base(p.Source), b.root, p.Name, sealed)
}

// source is a folder of the image, open.
func (b *rootBuilder) source(dir string) forkexec.Arg {
	fd, ok := b.sources[dir]
	if !ok {
		fd = b.folder(b.source(path.Dir(dir)), path.Base(dir))
		b.sources[dir] = fd
	}
	return fd
}

// covered is the folder of the root, open, in which a part covers something.
func (b *rootBuilder) covered(p rootfs.Part) forkexec.Arg {
	dir := path.Dir(p.Name)
	fd, ok := b.covers[dir]
	if !ok {
		fd = b.folder(b.root, dir)
		b.covers[dir] = fd
	}
	return fd
}

// folder opens a folder of that name, which no link leads to.
func (b *rootBuilder) folder(in forkexec.Arg, name string) forkexec.Arg {
	return b.p.Open(unix.SYS_OPENAT, in, b.p.Str(name), forkexec.Int(unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC), forkexec.Int(0))
}

// tmpfs mounts a writable memory file system with hard caps, owned by the sandbox's user.
func (b *rootBuilder) tmpfs(name string, bytes, inodes int64, mode string, noexec bool, owner rootfs.User) {
	attr := mount.NoSUID | mount.NoDev
	if noexec {
		attr |= mount.NoExec
	}
	b.m.MountFS("tmpfs", b.root, name, attr, mount.Tmpfs(bytes, inodes, mode, owner.UID, owner.GID)...)
}

// emptyDir is a folder of the root that is empty for ever: a file system of its own is mounted over it.
const emptyDir = "tmp"

func (b *rootBuilder) proc() {
	b.p.Step(stepProc)
	proc := b.m.FS("proc", mount.NoSUID|mount.NoDev|mount.NoExec)
	b.m.Attach(proc, b.root, "proc")
	b.m.HideFiles(proc, rootfs.HiddenFiles())
	b.m.HideFolders(proc, rootfs.HiddenFolders(), b.root, emptyDir)
	for _, name := range rootfs.ReadOnly() {
		b.m.Protect(proc, name, mount.ReadOnly|mount.NoSUID|mount.NoDev|mount.NoExec)
	}
}

func (b *rootBuilder) dev(pl *plan) {
	b.p.Step(stepDev)
	dev := b.m.FS("tmpfs", mount.NoSUID|mount.NoExec, [2]string{"size", "64k"}, [2]string{"nr_inodes", "64"}, [2]string{"mode", "755"})
	b.m.Attach(dev, b.root, "dev")
	for _, name := range rootfs.Devices() {
		b.p.Close(b.create(dev, name))
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
