package layer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Remove removes a tree of any depth, without following links. It can remove folders whose mode forbids that, if they
// are ours. If dir is not a folder, Remove removes dir itself. A missing dir is no error. Other hard links to its files
// are not touched.
func Remove(dir string) error {
	parent, err := unix.Open(filepath.Dir(dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(parent)
		err = removeAt(parent, filepath.Base(dir))
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &os.PathError{Op: "remove", Path: dir, Err: err}
}

// removeAt is Remove for a name in an open folder. A missing name is no error.
func removeAt(at int, name string) error {
	if done, err := unlink(at, name, unix.DT_UNKNOWN); done {
		return err
	}
	top, err := openMine(at, name)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	r := remover{top: top}
	if err := r.empty(top, 0); err != nil {
		return err
	}
	return rmdir(at, name)
}

// emptyAt removes everything in an open folder.
func emptyAt(fd int) error {
	r := remover{top: fd}
	return r.empty(fd, 0)
}

// remover empties one folder.
type remover struct {
	top     int
	lifted  int
	buffers buffers
}

// deep limits how many folders below the top are open. Deeper ones are first moved to the top.
const deep = 48

// empty removes what is in fd, in as many passes as it takes: file systems may hide names from a reader while others go,
// and the top gets more while it is emptied.
func (r *remover) empty(fd, depth int) error {
	for {
		names, err := list(fd, r.buffers.at(depth))
		if err != nil {
			return err
		}
		found := false
		for {
			name, kind, err := names.next()
			if err != nil {
				return err
			}
			if name == "" {
				break
			}
			found = true
			if err := r.one(fd, name, kind, depth); err != nil {
				return err
			}
		}
		if !found {
			return nil
		}
	}
}

// one removes a name in fd, and all files below it.
func (r *remover) one(fd int, name string, kind byte, depth int) error {
	if kind != unix.DT_DIR {
		done, err := unlink(fd, name, kind)
		if done && permission(err) {
			if err = unix.Fchmod(fd, 0o700); err == nil {
				done, err = unlink(fd, name, kind)
			}
		}
		if done {
			return err
		}
	}
	below, err := openMine(fd, name)
	if err == unix.EACCES && unix.Fchmod(fd, 0o700) == nil {
		below, err = openMine(fd, name)
	}
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(below)
	if depth == deep {
		return r.lift(fd, name, below)
	}
	if err := r.empty(below, depth+1); err != nil {
		return err
	}
	err = rmdir(fd, name)
	if permission(err) && unix.Fchmod(fd, 0o700) == nil {
		err = rmdir(fd, name)
	}
	return err
}

// lift moves a folder to the top, whose next pass removes it.
func (r *remover) lift(fd int, name string, below int) error {
	for {
		r.lifted++
		err := unix.Renameat2(fd, name, r.top, ".lifted-"+strconv.Itoa(r.lifted), unix.RENAME_NOREPLACE)
		switch {
		case err == unix.EINVAL: // a file system without that flag: a folder can only replace an empty one
			err = unix.Renameat(fd, name, r.top, ".lifted-"+strconv.Itoa(r.lifted))
		case permission(err):
			// A move writes the folder's .., so the folder itself has to be writable.
			if unix.Fchmod(below, 0o700) == nil && unix.Fchmod(fd, 0o700) == nil {
				err = unix.Renameat(fd, name, r.top, ".lifted-"+strconv.Itoa(r.lifted))
			}
		}
		switch err {
		case unix.EEXIST, unix.ENOTEMPTY, unix.ENOTDIR:
			continue
		}
		return err
	}
}

// unlink removes a name unless it is a folder. For a folder it does nothing and returns false.
func unlink(at int, name string, kind byte) (done bool, err error) {
	err = unix.Unlinkat(at, name, 0)
	switch err {
	case nil, unix.ENOENT:
		return true, nil
	case unix.EISDIR:
		return false, nil
	case unix.EPERM: // the error for a folder in POSIX, and for an append-only file
		if kind == unix.DT_UNKNOWN {
			if kind, e := kindOf(at, name); e == nil && kind == unix.DT_DIR {
				return false, nil
			}
		}
	}
	return true, err
}

func rmdir(at int, name string) error {
	err := unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
	if err == unix.ENOENT {
		return nil
	}
	return err
}

func permission(err error) bool { return err == unix.EACCES || err == unix.EPERM }

// openMine opens a folder of ours even if its mode forbids that.
func openMine(at int, name string) (int, error) {
	fd, err := openFolder(at, name)
	if err != unix.EACCES {
		return fd, err
	}
	handle, err := openat(at, name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(handle)
	// fchmod(2) refuses such a descriptor; its name in /proc leads to exactly the opened folder.
	if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(handle), 0o700); err != nil {
		return -1, unix.EACCES
	}
	return openFolder(at, name)
}
