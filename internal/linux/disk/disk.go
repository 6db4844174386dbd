//go:build linux

// Package disk makes file systems in files, for workspaces that are not in memory. A file is an ext4 image of a fixed size, which the
// kernel enforces. All of its blocks are allocated on the host's disk when it is made.
//
// An image is mounted through a loop device that the kernel releases with the last mount. It is not attached anywhere on the host:
// the mount is a descriptor, which the birth of a sandbox attaches in its own mount namespace. So nothing is left to unmount,
// whichever process dies. A sandbox has only the tree, never the image or the device.
//
// Used by the native runtime. Linux only.
package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/installed"
	"github.com/belljar/belljar/internal/linux/lockfile"
)

// Owner owns all files of an image. A sandbox sees them as its user's; see [Tree.Owned].
const Owner = 1000

const (
	blockSize = 4096
	inodeSize = 256
	groupSize = blockSize * 8 * blockSize
	mib       = 1 << 20
	maxHidden = 16 * mib // reserved for the kernel
)

// Least is the minimum size of an image in bytes.
const Least = 8 * mib

// Missing returns what this host lacks for images, with a hint; "" for nothing. It changes nothing.
func Missing() (detail, hint string) {
	ids, err := os.ReadFile("/proc/self/uid_map")
	if os.Geteuid() != 0 || err != nil || strings.Join(strings.Fields(string(ids)), " ") != "0 0 4294967295" {
		return "only the host's root can mount a file system", "run the server as root"
	}
	for _, name := range []string{"mke2fs", "debugfs", "tune2fs"} {
		if _, err := installed.Find("", name); err != nil {
			return name + " is not installed", "install e2fsprogs"
		}
	}
	control, err := os.OpenFile(loopControl, os.O_RDWR, 0)
	if err != nil {
		return "loop devices cannot be used: " + err.Error(), "let the server open " + loopControl + " and /dev/loop*"
	}
	control.Close()
	return "", ""
}

// Make makes an image with room for that many bytes and files of its user. It leaves nothing if it fails; the error wraps ENOSPC if
// the host's disk is full.
func Make(path string, bytes, inodes int64) (err error) {
	inodes = min(inodes, bytes/blockSize)
	journal := min(max(bytes/16/mib, 4), 64)
	size := bytes + journal*mib + inodes*inodeSize + 2*mib
	size += (size/groupSize + 1) * 16 * blockSize
	size += min(size/49, maxHidden)
	size = (size + mib - 1) / mib * mib
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			_ = os.Remove(path)
		}
	}()
	// Otherwise the kernel would first allocate all free space, from all other users, and then fail.
	var room unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &room); err == nil && size/room.Bsize >= int64(room.Bavail) {
		return &os.PathError{Op: "allocate", Path: path, Err: unix.ENOSPC}
	}
	allocate := func() error {
		if err := unix.Fallocate(int(file.Fd()), 0, 0, size); err != nil {
			return &fs.PathError{Op: "allocate", Path: path, Err: err}
		}
		return nil
	}
	if err := allocate(); err != nil {
		return err
	}
	if err := call("mke2fs", "-q", "-F", "-b", strconv.Itoa(blockSize), "-I", strconv.Itoa(inodeSize), "-N", strconv.FormatInt(inodes+16, 10),
		"-m", "0", "-J", "size="+strconv.FormatInt(journal, 10), "-O",
		"none,has_journal,extent,huge_file,flex_bg,metadata_csum,dir_nlink,extra_isize,sparse_super,large_file,filetype,dir_index,ext_attr",
		"-E", fmt.Sprintf("nodiscard,lazy_itable_init=1,root_owner=%d:%d", Owner, Owner), path); err != nil {
		return err
	}
	if err := call("debugfs", "-w", "-R", "rmdir lost+found", path); err != nil { // it does not belong to the user
		return err
	}
	// All free space beyond the requested size is reserved for root, and no sandbox has that user.
	var super [16]byte
	if _, err := file.ReadAt(super[:], 1024); err != nil {
		return err
	}
	blocks, free := int64(binary.LittleEndian.Uint32(super[4:])), int64(binary.LittleEndian.Uint32(super[12:]))
	spare := free - bytes/blockSize - min(blocks/50, maxHidden/blockSize)
	if spare < 0 {
		return fmt.Errorf("the file system has %d blocks too few", -spare)
	}
	if err := call("tune2fs", "-r", strconv.FormatInt(spare, 10), path); err != nil {
		return err
	}
	// If a file system cannot zero blocks without writing them, mke2fs makes holes.
	return errors.Join(allocate(), file.Sync())
}

// call runs a program of e2fsprogs without the host's settings.
func call(name string, args ...string) error {
	path, err := installed.Find("", name)
	if err != nil {
		return err
	}
	cmd := exec.Command(path, args...)
	cmd.Env = []string{"MKE2FS_CONFIG=/dev/null", "LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %.300s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Try makes an image in a folder, mounts it, and removes it.
func Try(dir string) error {
	at, err := os.MkdirTemp(dir, "try-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(at)
	path := filepath.Join(at, "image")
	if err := Make(path, Least, 16); err != nil {
		return err
	}
	tree, err := Mount(path)
	if err != nil {
		return err
	}
	return errors.Join(tree.Owned(0, ID{Owner, Owner, Owner}), tree.Close())
}

// ErrBusy means that another process holds a lock.
var ErrBusy = errors.New("another sandbox writes to it")

// Lock takes a writer's lock, which is held as long as any process has the file open. It makes a missing file.
func Lock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockfile.Lock(file, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrBusy
		}
		return nil, err
	}
	return file, nil
}
