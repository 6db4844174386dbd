//go:build linux

package rootfs

import (
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/mount"
)

// Sealed are the attributes of the mounts of the host or of an image.
const Sealed = mount.ReadOnly | mount.NoSUID | mount.NoDev

// Builder appends the steps that make a root to a program. No path is resolved through a link.
type Builder struct {
	Root forkexec.Arg // open

	p       *forkexec.Program
	m       *mount.Builder
	made    map[string]bool
	sources map[string]forkexec.Arg // open folders of the image; nil for the host
	covers  map[string]forkexec.Arg // open folders of the root that contain covered files
}

// NewBuilder begins a root: a memory file system with room for the parts of t and that many additional bytes and inodes. It is
// mounted over /proc, the one folder that every Linux has and that we do not need until we mount our own. image is the open
// folder that contains the sources of t; nil for the host's own root.
func NewBuilder(p *forkexec.Program, m *mount.Builder, t *Tree, image *forkexec.Arg, bytes, inodes int64) *Builder {
	p.Call(unix.SYS_UMASK, forkexec.Int(0))
	moreBytes, moreInodes := t.Room()
	root := m.FS("tmpfs", mount.NoSUID|mount.NoDev,
		[2]string{"size", strconv.FormatInt(bytes+moreBytes, 10)}, [2]string{"nr_inodes", strconv.FormatInt(inodes+moreInodes, 10)},
		[2]string{"mode", "755"})
	m.Attach(root, forkexec.Int(unix.AT_FDCWD), "/proc")
	b := &Builder{Root: root, p: p, m: m, made: map[string]bool{".": true}, covers: map[string]forkexec.Arg{}}
	if image != nil {
		b.sources = map[string]forkexec.Arg{".": *image}
	}
	return b
}

// Dir makes a folder, and those above it.
func (b *Builder) Dir(name string) {
	if b.made[name] {
		return
	}
	b.Dir(path.Dir(name))
	b.p.Call(unix.SYS_MKDIRAT, b.Root, b.p.Str(name), forkexec.Int(0o755))
	b.made[name] = true
}

// File makes a file with the given text.
func (b *Builder) File(name, text string) {
	b.Dir(path.Dir(name))
	b.FileIn(b.Root, name, text)
}

// FileIn makes a file below another open folder.
func (b *Builder) FileIn(dir forkexec.Arg, name, text string) {
	fd := b.m.Temp(unix.SYS_OPENAT, dir, b.p.Str(name), forkexec.Int(unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC), forkexec.Int(0o644))
	if text != "" {
		b.p.Call(unix.SYS_WRITE, fd, b.p.Str(text), forkexec.Int(len(text)))
		b.p.Expect(len(text), unix.ENOSPC)
	}
	b.p.Close(fd)
}

// BindOver mounts source, a name in the root, over another name in it.
func (b *Builder) BindOver(source, name string, attr mount.Attr) {
	dir := path.Dir(name)
	fd, ok := b.covers[dir]
	if !ok {
		fd = b.folder(b.Root, dir)
		b.covers[dir] = fd
	}
	b.m.BindAt(b.Root, source, fd, path.Base(name), attr)
}

// Parts makes parts below a folder. Files that cover others are in the folder spare, which stays hidden. It leaves out
// [BindWritable] parts, which need their target first.
func (b *Builder) Parts(parts []Part, below, spare string) {
	for i, p := range parts {
		name := path.Join(below, p.Name)
		switch p.Kind {
		case Folder:
			b.Dir(name)
		case Link:
			b.Dir(path.Dir(name))
			b.p.Call(unix.SYS_SYMLINKAT, b.p.Str(p.Target), b.Root, b.p.Str(name))
		case Text:
			if !p.Over {
				b.File(name, p.Text)
				continue
			}
			hidden := path.Join(spare, strconv.Itoa(i))
			b.File(hidden, p.Text)
			b.BindOver(hidden, name, Sealed)
		case Bind:
			if p.File {
				b.File(name, "")
			} else {
				b.Dir(name)
			}
			b.bind(p.Source, name)
		}
	}
}

// bind mounts a file or folder: the host's by its path, an image's below the open folders that contain it.
func (b *Builder) bind(source, name string) {
	if b.sources == nil {
		b.m.Bind("/"+source, b.Root, name, Sealed)
		return
	}
	b.m.BindAt(b.source(path.Dir(source)), path.Base(source), b.Root, name, Sealed)
}

// source returns an open folder of the image.
func (b *Builder) source(dir string) forkexec.Arg {
	fd, ok := b.sources[dir]
	if !ok {
		fd = b.folder(b.source(path.Dir(dir)), path.Base(dir))
		b.sources[dir] = fd
	}
	return fd
}

// folder opens a folder without following a link.
func (b *Builder) folder(in forkexec.Arg, name string) forkexec.Arg {
	return b.p.Open(unix.SYS_OPENAT, in, b.p.Str(name), forkexec.Int(unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC), forkexec.Int(0))
}
