//go:build linux

package native

import (
	"errors"
	"os"

	"github.com/belljar/belljar/internal/linux/disk"
	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/linux/mount"
	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/runtime"
)

// volume is the disk of a workspace, mounted for one sandbox.
type volume struct {
	tree disk.Tree
	lock *os.File // of its writer; nil for none
}

// openVolume mounts the disk of a workspace, as the sandbox's user sees it; nil for a workspace in memory.
func openVolume(w runtime.Workspace, ids *idmap.Range, user rootfs.User) (_ *volume, err error) {
	if w.Medium != runtime.MediumDisk {
		return nil, nil
	}
	v := &volume{}
	defer func() {
		if err != nil {
			v.close()
			err = &runtime.StepError{Step: jar.StepMount, Err: err}
		}
	}()
	attr := mount.NoSUID | mount.NoDev
	if !w.Exec {
		attr |= mount.NoExec
	}
	if w.ReadOnly {
		attr |= mount.ReadOnly
	} else if w.Lock != "" {
		if v.lock, err = disk.Lock(w.Lock); errors.Is(err, disk.ErrBusy) {
			err = runtime.ErrInUse
		}
	}
	if err == nil {
		v.tree, err = disk.Mount(w.Image)
	}
	if err == nil {
		err = v.tree.Owned(ids.HostUID(user.UID), ids.HostGID(user.GID), attr)
	}
	return v, err
}

// close ends our part: what a sandbox has attached and locked stays its own.
func (v *volume) close() {
	if v == nil {
		return
	}
	if v.tree.File != nil {
		v.tree.Close()
	}
	if v.lock != nil {
		v.lock.Close()
	}
}

// disk attaches the disk as /workspace. /tmp is in memory.
func (b *rootBuilder) disk(pl *plan) {
	b.m.Attach(forkexec.Int(int(pl.volume.tree.Fd())), b.Root, "workspace")
	b.tmpfs("tmp", pl.limits.tmp, pl.limits.inodes, "1777", !pl.workspace.Exec, pl.user)
}
