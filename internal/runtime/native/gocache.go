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

// goCache mounts an overlay over the read-only cache. The upper folder is in the file system of /tmp, and counts toward
// its size. The upper has every folder of the cache already, as the user's: a folder of the lower belongs to an id that
// the sandbox does not map, and the kernel would not copy it up.
func (b *rootBuilder) goCache(pl *plan, cache forkexec.Arg) {
	name := runtime.GoCacheDir[1:]
	p := b.p
	p.Call(unix.SYS_FCHDIR, b.Root) // the overlay's folders are relative to this one
	for _, dir := range []string{name, sharedWork} {
		p.Call(unix.SYS_MKDIRAT, b.Root, p.Str(dir), forkexec.Int(0o755))
	}
	b.userDir(pl, sharedUpper, 0o755)
	b.as(pl, pl.user, func() {
		for i := range 256 {
			p.Call(unix.SYS_MKDIRAT, b.Root, p.Str(fmt.Sprintf("%s/%02x", sharedUpper, i)), forkexec.Int(0o755))
		}
	})
	b.m.BindOpen(cache, b.Root, name, rootfs.Sealed)
	b.m.MountFS("overlay", b.Root, name, mount.NoSUID|mount.NoDev,
		[2]string{"lowerdir", name}, [2]string{"upperdir", sharedUpper}, [2]string{"workdir", sharedWork}, [2]string{"userxattr", ""})
}

// as appends the steps of do, so that they run as a user.
func (b *rootBuilder) as(pl *plan, u rootfs.User, do func()) {
	if pl.ids.Shared { // the sandbox has only this user
		do()
		return
	}
	b.p.Call(unix.SYS_SETFSGID, forkexec.Int(u.GID))
	b.p.Call(unix.SYS_SETFSUID, forkexec.Int(u.UID))
	do()
	b.p.Call(unix.SYS_SETFSUID, forkexec.Int(agentID))
	b.p.Call(unix.SYS_SETFSGID, forkexec.Int(agentID))
	jar.SetDumpable(b.p) // the change of user resets it
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
