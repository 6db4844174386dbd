//go:build linux

// Package mount writes mounts into a forkexec program, using only the file-descriptor mount API of Linux 5.12. A file system or a
// tree is made detached, gets its attributes, and is attached below a folder that is held open. No path is resolved in a tree that
// another process could change meanwhile.
//
// Used by the native and gVisor runtimes. Linux only.
package mount

import (
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
)

// Attr are mount attributes, MOUNT_ATTR_… of mount_setattr(2).
type Attr uint64

// The attributes in use.
const (
	ReadOnly Attr = unix.MOUNT_ATTR_RDONLY
	NoSUID   Attr = unix.MOUNT_ATTR_NOSUID
	NoDev    Attr = unix.MOUNT_ATTR_NODEV
	NoExec   Attr = unix.MOUNT_ATTR_NOEXEC
)

// Builder appends mounts to a program. Every descriptor it opens in the child is close-on-exec.
type Builder struct {
	p    *forkexec.Program
	tree forkexec.Arg // the slot for short-lived trees and contexts
	made bool
}

// New returns a builder for p.
func New(p *forkexec.Program) *Builder { return &Builder{p: p} }

// Temp appends a call whose result, a descriptor, is needed only until the next use of the builder. The caller may close it.
func (b *Builder) Temp(nr uintptr, args ...forkexec.Arg) forkexec.Arg {
	if !b.made {
		b.tree, b.made = b.p.Open(nr, args...), true
	} else {
		b.p.Reopen(b.tree, nr, args...)
	}
	return b.tree
}

// FS makes a new file system of the given type, detached, and returns it open. Options are key=value pairs as in mount(8), or flags
// with an empty value.
func (b *Builder) FS(kind string, attr Attr, options ...[2]string) forkexec.Arg {
	fd := b.p.Open(unix.SYS_FSOPEN, b.p.Str(kind), forkexec.Int(unix.FSOPEN_CLOEXEC))
	b.configure(fd, attr, options)
	return fd
}

// configure turns the context of fd into a mount of fd.
func (b *Builder) configure(fd forkexec.Arg, attr Attr, options [][2]string) {
	p := b.p
	for _, o := range options {
		if o[1] == "" {
			p.Call(unix.SYS_FSCONFIG, fd, forkexec.Int(unix.FSCONFIG_SET_FLAG), p.Str(o[0]), forkexec.Int(0), forkexec.Int(0))
			continue
		}
		p.Call(unix.SYS_FSCONFIG, fd, forkexec.Int(unix.FSCONFIG_SET_STRING), p.Str(o[0]), p.Str(o[1]), forkexec.Int(0))
	}
	p.Call(unix.SYS_FSCONFIG, fd, forkexec.Int(unix.FSCONFIG_CMD_CREATE), forkexec.Int(0), forkexec.Int(0), forkexec.Int(0))
	p.Reopen(fd, unix.SYS_FSMOUNT, fd, forkexec.Int(unix.FSMOUNT_CLOEXEC), forkexec.Int(uint64(attr)))
}

// MountFS makes a file system and attaches it at name below the open folder dir.
func (b *Builder) MountFS(kind string, dir forkexec.Arg, name string, attr Attr, options ...[2]string) {
	fd := b.Temp(unix.SYS_FSOPEN, b.p.Str(kind), forkexec.Int(unix.FSOPEN_CLOEXEC))
	b.configure(fd, attr, options)
	b.Attach(fd, dir, name)
}

// Attach attaches the detached mount tree at name below the open folder dir.
func (b *Builder) Attach(tree, dir forkexec.Arg, name string) {
	b.p.Call(unix.SYS_MOVE_MOUNT, tree, b.p.Str(""), dir, b.p.Str(name), forkexec.Int(unix.MOVE_MOUNT_F_EMPTY_PATH))
}

// clone opens a detached copy of the mounts at name below dir.
func (b *Builder) clone(dir forkexec.Arg, name string) forkexec.Arg {
	return b.Temp(unix.SYS_OPEN_TREE, dir, b.p.Str(name),
		forkexec.Int(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW))
}

// SetAttr sets attributes on the mount of fd, and on all below it if recursive. It never clears one.
func (b *Builder) SetAttr(fd forkexec.Arg, attr Attr, recursive bool) {
	flags := unix.AT_EMPTY_PATH
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	set := &unix.MountAttr{Attr_set: uint64(attr)}
	b.p.Call(unix.SYS_MOUNT_SETATTR, fd, b.p.Str(""), forkexec.Int(flags), forkexec.Ptr(b.p, set), forkexec.Int(unix.MOUNT_ATTR_SIZE_VER0))
}

// Bind attaches a copy of the host's file or folder source, with everything mounted below it, at name below dir.
func (b *Builder) Bind(source string, dir forkexec.Arg, name string, attr Attr) {
	b.BindAt(forkexec.Int(unix.AT_FDCWD), source, dir, name, attr)
}

// BindAt is Bind for a source below the open folder from. If source is a single name, it is not followed if it is a link.
func (b *Builder) BindAt(from forkexec.Arg, source string, dir forkexec.Arg, name string, attr Attr) {
	fd := b.clone(from, source)
	if attr != 0 {
		b.SetAttr(fd, attr, true)
	}
	b.Attach(fd, dir, name)
}

// BindOpen is Bind for an open file or folder, in the mount namespace of the program.
func (b *Builder) BindOpen(source, dir forkexec.Arg, name string, attr Attr) {
	fd := b.Temp(unix.SYS_OPEN_TREE, source, b.p.Str(""),
		forkexec.Int(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH))
	if attr != 0 {
		b.SetAttr(fd, attr, true)
	}
	b.Attach(fd, dir, name)
}

// Protect makes name below the mount dir read-only, by attaching a read-only copy over it. A missing name is not an error.
func (b *Builder) Protect(dir forkexec.Arg, name string, attr Attr) {
	fd := b.clone(dir, name)
	b.p.UnlessError(func() {
		b.SetAttr(fd, attr, true)
		b.Attach(fd, dir, name)
	}, unix.ENOENT)
}

const hidden = ReadOnly | NoDev | NoExec | NoSUID

// HideFiles mounts the device null, a path, over the files of these names below the mount dir. It cannot be opened there, so the
// files can be neither read nor written. A missing name is not an error. dir must belong to the caller alone, so that no process can
// replace a file meanwhile. The last name should exist: its cover is prepared in any case.
func (b *Builder) HideFiles(dir forkexec.Arg, names []string, null string) {
	b.hide(dir, names, b.clone(forkexec.Int(unix.AT_FDCWD), null))
}

// HideFolders hides folders likewise, with the empty folder of that name below from.
func (b *Builder) HideFolders(dir forkexec.Arg, names []string, from forkexec.Arg, empty string) {
	b.hide(dir, names, b.clone(from, empty))
}

// hide mounts a cover over each name. Each further cover is a copy of the last one mounted, with its attributes.
func (b *Builder) hide(dir forkexec.Arg, names []string, cover forkexec.Arg) {
	b.SetAttr(cover, hidden, true)
	for i, name := range names {
		b.Attach(cover, dir, name)
		b.p.UnlessError(func() {
			if i < len(names)-1 {
				b.p.Reopen(cover, unix.SYS_OPEN_TREE, cover, b.p.Str(""),
					forkexec.Int(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH))
			}
		}, unix.ENOENT)
	}
}

// Tmpfs returns the options of a memory file system with hard caps.
func Tmpfs(bytes, inodes int64, mode string, uid, gid int) [][2]string {
	return [][2]string{
		{"size", strconv.FormatInt(bytes, 10)},
		{"nr_inodes", strconv.FormatInt(inodes, 10)},
		{"mode", mode},
		{"uid", strconv.Itoa(uid)},
		{"gid", strconv.Itoa(gid)},
	}
}
