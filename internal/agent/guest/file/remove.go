//go:build linux

package file

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	removeDepth = 32               // directories that a removal has open at a time
	removeBatch = 256              // names that it reads from each of them
	removeTime  = 50 * time.Second // programs may write to the tree faster than it is removed; the host waits for a minute
)

// removeTree removes name and everything below. It removes links without following them. If it fails, as with ETIMEDOUT for
// a large tree, part of it may be gone. Runs with the requester's rights.
func (w *Workspace) removeTree(name string) error {
	parent, err := w.openDir(path.Dir(name))
	if err != nil {
		return err
	}
	defer parent.Close()
	r := &remover{until: time.Now().Add(removeTime)}
	if err := r.remove(int(parent.Fd()), path.Base(name), 0); err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}

// remover removes trees of any depth and width with few descriptors and little memory: it moves deep directories to the top first.
type remover struct {
	top   int // the tree's topmost directory
	moved int
	until time.Time
}

// remove removes base in a directory.
func (r *remover) remove(parent int, base string, depth int) error {
	err := unix.Unlinkat(parent, base, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	if err != unix.EISDIR && err != unix.EPERM {
		return err
	}
	dir, e := r.open(parent, base)
	switch e {
	case nil:
	case unix.ENOENT:
		return nil
	case unix.ENOTDIR:
		return err
	default:
		return e
	}
	defer dir.Close()
	if depth == 0 {
		r.top = int(dir.Fd())
	}
	for {
		held := r.empty(dir, depth)
		err := unix.Unlinkat(parent, base, unix.AT_REMOVEDIR)
		switch {
		case err == nil, err == unix.ENOENT:
			return nil
		case err != unix.ENOTEMPTY && err != unix.EEXIST:
			return err
		case held != nil:
			return held
		case time.Now().After(r.until):
			return unix.ETIMEDOUT
		}
		// A directory was moved up to here, or a program has created files meanwhile.
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
}

// open opens a directory, even one that its owner cannot read or write.
func (r *remover) open(parent int, base string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	fd, err := unix.Openat(parent, base, flags, 0)
	if err == unix.EACCES && unix.Fchmodat(parent, base, 0o700, 0) == nil {
		fd, err = unix.Openat(parent, base, flags, 0)
	}
	if err == unix.ELOOP {
		err = unix.ENOTDIR // a link has replaced it
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), base), nil
}

// empty removes as many entries of a directory as possible, and returns the first error.
func (r *remover) empty(dir *os.File, depth int) (first error) {
	fd, opened := int(dir.Fd()), false
	for {
		names, err := dir.Readdirnames(removeBatch)
		for _, name := range names {
			e := r.drop(fd, name, depth)
			if e == unix.EACCES && !opened {
				opened = true
				if unix.Fchmod(fd, 0o700) == nil {
					e = r.drop(fd, name, depth)
				}
			}
			if e != nil && first == nil {
				first = e
			}
		}
		if err != nil || len(names) == 0 || time.Now().After(r.until) {
			if err != nil && !errors.Is(err, io.EOF) && first == nil {
				first = err
			}
			return first
		}
	}
}

// drop removes one entry of a directory, or moves it up if it is a directory at too great a depth.
func (r *remover) drop(dir int, name string, depth int) error {
	if depth < removeDepth {
		return r.remove(dir, name, depth+1)
	}
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	if err != unix.EISDIR && err != unix.EPERM {
		return err
	}
	for {
		r.moved++
		up := ".belljar-deep-" + strconv.Itoa(r.moved)
		err := unix.Renameat2(dir, name, r.top, up, unix.RENAME_NOREPLACE)
		if err == unix.EACCES && unix.Fchmodat(dir, name, 0o700, 0) == nil {
			err = unix.Renameat2(dir, name, r.top, up, unix.RENAME_NOREPLACE)
		}
		switch err {
		case nil, unix.ENOENT:
			return nil
		case unix.EEXIST:
			continue
		}
		return err
	}
}
