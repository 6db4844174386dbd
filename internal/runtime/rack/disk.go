//go:build linux

package rack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/belljar/belljar/internal/linux/disk"
	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/linux/mount"
	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/runtime"
)

// Disk is the disk of a workspace, mounted for one sandbox.
type Disk struct {
	tree disk.Tree
	lock *os.File // the writer's lock; nil for none
}

// OpenDisk mounts the disk of a workspace, with its files mapped to the sandbox's user, and other ids as in more. It returns nil for a workspace
// in memory.
func OpenDisk(w runtime.Workspace, ids *idmap.Range, user rootfs.User, more ...disk.ID) (_ *Disk, err error) {
	if w.Medium != runtime.MediumDisk {
		return nil, nil
	}
	v := &Disk{}
	defer func() {
		if err != nil {
			v.Close()
			var path *fs.PathError
			if errors.As(err, &path) { // callers need not know its path
				err = fmt.Errorf("%s its image: %w", path.Op, path.Err)
			}
			err = &runtime.StepError{Step: jar.StepMount, Err: err, Hint: "an operator can repair a damaged image with e2fsck"}
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
		err = v.tree.Owned(attr, append(more, disk.ID{Disk: disk.Owner, UID: ids.HostUID(user.UID), GID: ids.HostGID(user.GID)})...)
	}
	return v, err
}

// Pass makes the birth of a sandbox attach the disk, and its first process hold the lock. It returns the descriptors that the birth needs. Call it
// before the birth's program is made.
func (v *Disk) Pass(b *jar.Birth) (uses []int) {
	if v == nil {
		return nil
	}
	b.Inherit(v.lock)
	return []int{int(v.tree.Fd())}
}

// Attach attaches the disk at name below the open folder dir.
func (v *Disk) Attach(m *mount.Builder, dir forkexec.Arg, name string) {
	m.Attach(forkexec.Int(int(v.tree.Fd())), dir, name)
}

// Close closes this process's part. The sandbox keeps its mount and its lock.
func (v *Disk) Close() {
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
