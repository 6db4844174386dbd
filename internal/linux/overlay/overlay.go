//go:build linux

package overlay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Names in the file system that [Mount] makes. All others but Own are free.
const (
	Workspace = "workspace" // the overlay
	Own       = "overlay"   // its parts
)

// Inodes is how many inodes the file system needs in addition to its user's.
const Inodes = 16

// Order describes a workspace to make.
type Order struct {
	Dir              string // the lower files, which must not change
	Bytes, Files     int64  // capacity of the memory file system above them
	HostUID, HostGID int    // the workspace's owner, on the host
}

// Mount mounts a memory file system over o.Dir, in the mount namespace of the process pid, and in it the workspace. The user namespace of
// that process maps the owners of the lower files to the workspace's owner.
func Mount(pid int, o Order) error {
	return within(pid, o.Dir, func(lower int) error { return o.mount(lower) })
}

// within calls do in the mount namespace of a process, with a detached mount of the folder dir that has the ids of its user namespace.
func within(pid int, dir string, do func(lower int) error) error {
	in := filepath.Join("/proc", strconv.Itoa(pid), "ns")
	mounts, err := os.Open(filepath.Join(in, "mnt"))
	if err != nil {
		return err
	}
	defer mounts.Close()
	users, err := os.Open(filepath.Join(in, "user"))
	if err != nil {
		return err
	}
	defer users.Close()
	return onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return err
		}
		if err := unix.Setns(int(mounts.Fd()), unix.CLONE_NEWNS); err != nil {
			return step("enter the sandbox's mounts", err)
		}
		lower, err := mapped(dir, int(users.Fd()))
		if err != nil {
			return err
		}
		defer unix.Close(lower)
		return do(lower)
	})
}

// onOwnThread calls do on a thread that ends afterwards, together with its namespaces. It never uses the main thread, which does not end:
// /proc/self would show that thread's namespaces for the whole process.
func onOwnThread(do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with its goroutine
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			done <- onOwnThread(do) // on another thread, while this one is locked
			return
		}
		done <- do()
	}()
	return <-done
}

// mapped returns a detached mount of a folder with the ids of a user namespace.
func mapped(dir string, users int) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return -1, step("open the lower files", err)
	}
	attr := unix.MountAttr{
		Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users),
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		unix.Close(fd)
		return -1, lacks(step("map the ids of the lower files", err))
	}
	return fd, nil
}

// mount makes the memory file system, and in it the overlay over the lower files.
func (o Order) mount(lower int) error {
	uid, gid := strconv.Itoa(o.HostUID), strconv.Itoa(o.HostGID)
	memory, err := filesystem("tmpfs", [][2]string{
		{"size", strconv.FormatInt(o.Bytes, 10)}, {"nr_inodes", strconv.FormatInt(o.Files+Inodes, 10)}, {"mode", "0755"}, {"uid", uid}, {"gid", gid},
	})
	if err != nil {
		return err
	}
	defer unix.Close(memory)
	for _, name := range []string{Workspace, Own, Own + "/lower", Own + "/upper", Own + "/work"} {
		if err := unix.Mkdirat(memory, name, 0o755); err != nil {
			return step("make the overlay's folders", err)
		}
	}
	err = unix.Fchownat(memory, Own+"/upper", o.HostUID, o.HostGID, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		err = unix.Fchmodat(memory, Own, 0o700, 0)
	}
	if err == nil {
		err = unix.MoveMount(memory, "", unix.AT_FDCWD, o.Dir, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if err == nil {
		err = unix.MoveMount(lower, "", memory, Own+"/lower", unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if err == nil {
		err = unix.Fchdir(memory) // the overlay's folders are relative to this one
	}
	if err != nil {
		return step("place the overlay", err)
	}
	over, err := filesystem("overlay", [][2]string{
		{"lowerdir", Own + "/lower"}, {"upperdir", Own + "/upper"}, {"workdir", Own + "/work"},
		{"redirect_dir", "on"}, {"index", "on"}, {"metacopy", "off"}, {"xino", "auto"},
	})
	if err != nil {
		return err
	}
	defer unix.Close(over)
	return step("place the overlay", unix.MoveMount(over, "", memory, Workspace, unix.MOVE_MOUNT_F_EMPTY_PATH))
}

// filesystem makes a file system, detached.
func filesystem(kind string, options [][2]string) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, step("make the "+kind, err)
	}
	defer unix.Close(fs)
	for _, o := range options {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			return -1, step("set "+o[0]+" of the "+kind, err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, step("make the "+kind, err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	return fd, step("make the "+kind, err)
}

// lacks marks an error as a missing feature of the system.
func lacks(err error) error {
	if err != nil {
		return errors.Join(errors.ErrUnsupported, err)
	}
	return nil
}

// step adds the name of the operation to an error.
func step(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
