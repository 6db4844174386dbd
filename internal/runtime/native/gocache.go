//go:build linux

package native

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/linux/mount"
	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/linux/seccomp"
	"github.com/belljar/belljar/internal/runtime"
)

// The folders of the file system behind /tmp when a sandbox has a Go build cache: programs see the first as /tmp, and the
// others belong to the overlay.
const (
	tmpFiles = "files"
	tmpUpper = "upper"
	tmpWork  = "work"
)

// goCache shows the cache read-only below an overlay, whose upper folder lies in the file system of /tmp and counts there.
// The upper has every folder of the cache already, as the user's: a folder of the lower belongs to an id that the sandbox
// does not map, and the kernel would not copy it up.
func (b *rootBuilder) goCache(pl *plan, cache forkexec.Arg) {
	name := runtime.GoCacheDir[1:]
	p := b.p
	p.Call(unix.SYS_FCHDIR, b.Root) // the overlay's folders are named from here
	for _, dir := range []string{name, "tmp/" + tmpFiles, "tmp/" + tmpUpper, "tmp/" + tmpWork} {
		p.Call(unix.SYS_MKDIRAT, forkexec.Int(unix.AT_FDCWD), p.Str(dir), forkexec.Int(0o755))
	}
	p.Call(unix.SYS_FCHMODAT, forkexec.Int(unix.AT_FDCWD), p.Str("tmp/"+tmpFiles), forkexec.Int(0o1777))
	p.Call(unix.SYS_FCHOWNAT, forkexec.Int(unix.AT_FDCWD), p.Str("tmp/"+tmpUpper), forkexec.Int(pl.user.UID), forkexec.Int(pl.user.GID), forkexec.Int(0))
	b.as(pl, pl.user, func() {
		for i := range 256 {
			p.Call(unix.SYS_MKDIRAT, forkexec.Int(unix.AT_FDCWD), p.Str(fmt.Sprintf("tmp/%s/%02x", tmpUpper, i)), forkexec.Int(0o755))
		}
	})
	b.m.BindOpen(cache, b.Root, name, rootfs.Sealed)
	b.m.MountFS("overlay", b.Root, name, mount.NoSUID|mount.NoDev,
		[2]string{"lowerdir", name}, [2]string{"upperdir", "tmp/" + tmpUpper}, [2]string{"workdir", "tmp/" + tmpWork}, [2]string{"userxattr", ""})
	b.m.BindAt(b.Root, "tmp/"+tmpFiles, b.Root, "tmp", 0)
}

// as appends what is done to files as a user.
func (b *rootBuilder) as(pl *plan, u rootfs.User, do func()) {
	if pl.ids.Shared { // it is the only user that there is
		do()
		return
	}
	b.p.Call(unix.SYS_SETFSGID, forkexec.Int(u.GID))
	b.p.Call(unix.SYS_SETFSUID, forkexec.Int(u.UID))
	do()
	b.p.Call(unix.SYS_SETFSUID, forkexec.Int(agentID))
	b.p.Call(unix.SYS_SETFSGID, forkexec.Int(agentID))
	jar.BeDumpable(b.p) // which a change of user takes away
}

// overlays reports whether the kernel lets a user namespace mount overlays (Linux 5.11).
func overlays() bool {
	known, err := os.ReadFile("/proc/filesystems")
	if err != nil || !bytes.Contains(known, []byte("\toverlay\n")) {
		return false
	}
	kernel, err := seccomp.Running()
	return err == nil && kernel.Since(5, 11)
}
