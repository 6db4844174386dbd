//go:build linux

package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/lockfile"
	"github.com/belljar/belljar/internal/linux/mount"
)

const loopControl = "/dev/loop-control"

// Tree is a mounted image that is not attached. It ends when it is closed, unless it was attached before.
type Tree struct{ *os.File }

// Mount mounts an image. Several mounts of one image share one file system, which is writable unless [Tree.Owned] makes it read-only.
func Mount(path string) (Tree, error) {
	image, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return Tree{}, err
	}
	defer image.Close()
	// Two devices of one image would destroy it. The lock is on a separate open file, not on the one that the device keeps open.
	turn, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return Tree{}, err
	}
	defer turn.Close()
	if err := lockfile.Lock(turn, unix.LOCK_EX); err != nil {
		return Tree{}, err
	}
	device, err := attached(image)
	if err == nil && device == nil {
		device, err = attach(image)
	}
	if err != nil {
		return Tree{}, fmt.Errorf("loop device of its image: %w", err)
	}
	defer device.Close()
	context, err := unix.Fsopen("ext4", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return Tree{}, fmt.Errorf("open file system ext4: %w", err)
	}
	defer unix.Close(context)
	for _, o := range [][2]string{{"source", device.Name()}, {"errors", "remount-ro"}, {"noinit_itable", ""}} {
		if o[1] == "" {
			err = unix.FsconfigSetFlag(context, o[0])
		} else {
			err = unix.FsconfigSetString(context, o[0], o[1])
		}
		if err != nil {
			return Tree{}, fmt.Errorf("mount option %s: %w", o[0], err)
		}
	}
	if err := unix.FsconfigCreate(context); err != nil {
		return Tree{}, fmt.Errorf("mount its image: %w", err)
	}
	tree, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return Tree{}, fmt.Errorf("mount its image: %w", err)
	}
	return Tree{os.NewFile(uintptr(tree), path)}, nil
}

// attached returns the device that already has an image, nil for none.
func attached(image *os.File) (*os.File, error) {
	var is unix.Stat_t
	if err := unix.Fstat(int(image.Fd()), &is); err != nil {
		return nil, err
	}
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file") // fails only for a bad pattern
	for _, name := range files {
		device, err := openLoop(filepath.Base(filepath.Dir(filepath.Dir(name))))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO) {
			continue // it belongs to another program, or is gone
		}
		if err != nil {
			return nil, err
		}
		has, err := unix.IoctlLoopGetStatus64(int(device.Fd()))
		if err == nil && has.Device == is.Dev && has.Inode == is.Ino {
			return device, nil
		}
		device.Close()
	}
	return nil, nil
}

// attachTries limits the search for a free device: another process may take it first.
const attachTries = 64

// attach attaches an image to a device, which the kernel releases when it is no longer open or mounted.
func attach(image *os.File) (*os.File, error) {
	control, err := os.OpenFile(loopControl, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	config := &unix.LoopConfig{Fd: uint32(image.Fd()), Size: blockSize, Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO}}
	for range attachTries {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free one: %w", err)
		}
		device, err := openLoop("loop" + strconv.Itoa(n))
		if err != nil {
			return nil, err
		}
		if err = unix.IoctlLoopConfigure(int(device.Fd()), config); err == nil {
			return device, nil
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("configure %s: %w", device.Name(), err)
		}
	}
	return nil, errors.New("others take every free one")
}

func openLoop(name string) (*os.File, error) { return os.OpenFile("/dev/"+name, os.O_RDWR, 0) }

// errOwned ends the helper process once its user namespace is open.
var errOwned = errors.New("done")

// ID maps an id on the disk to a user and group of the host.
type ID struct{ Disk, UID, GID int }

// Owned maps the given ids of the disk to users of the host, and sets additional attributes. A file that such a user makes has the
// corresponding id on the disk, so that another sandbox, with other ids on the host, owns it too. No other user of the host can make a
// file.
func (t Tree) Owned(attr mount.Attr, ids ...ID) error {
	var uids, gids []byte
	for _, id := range ids {
		uids = fmt.Appendf(uids, "%d %d 1\n", id.Disk, id.UID)
		gids = fmt.Appendf(gids, "%d %d 1\n", id.Disk, id.GID)
	}
	var users int
	program := forkexec.New()
	defer program.Free()
	program.Sync()
	_, err := program.Start(forkexec.Options{Flags: unix.CLONE_NEWUSER, Only: []int{}, Sync: func(pid int) (err error) {
		proc := "/proc/" + strconv.Itoa(pid)
		for name, text := range map[string][]byte{"uid_map": uids, "gid_map": gids} {
			if err := os.WriteFile(filepath.Join(proc, name), text, 0); err != nil {
				return err
			}
		}
		if users, err = unix.Open(filepath.Join(proc, "ns/user"), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
		return errOwned
	}})
	if !errors.Is(err, errOwned) {
		return fmt.Errorf("user namespace of a disk: %w", err)
	}
	defer unix.Close(users)
	set := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP | uint64(attr), Userns_fd: uint64(users)}
	if err := unix.MountSetattr(int(t.Fd()), "", unix.AT_EMPTY_PATH, set); err != nil {
		return fmt.Errorf("map the owner of a disk: %w", err)
	}
	return nil
}
