//go:build linux

package file

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/wire"
)

// Limits of a path.
const (
	maxPath  = 16 << 10
	maxLinks = 40
)

func escapes(name string) error {
	return fault.New(wire.CodePathEscapes, "%s leads out of the workspace", name)
}

// place converts a path of a request to one relative to the workspace, "." for the workspace itself.
func (w *Workspace) place(name string) (string, error) {
	if name == "" || len(name) > maxPath || strings.ContainsRune(name, 0) {
		return "", fault.Invalid("malformed path of %d bytes", len(name))
	}
	rel := name
	if path.IsAbs(name) {
		var ok bool
		if rel, ok = w.inside(name); !ok {
			return "", escapes(name)
		}
	}
	rel = path.Clean(rel)
	if rel == ".." || strings.HasPrefix(rel, "../") {
		return "", escapes(name)
	}
	return rel, nil
}

// inside makes an absolute path that lies in the workspace relative to it.
func (w *Workspace) inside(name string) (string, bool) {
	name = path.Clean(name)
	for _, root := range []string{Path, path.Clean(w.dir)} {
		if name == root {
			return ".", true
		}
		if rest, ok := strings.CutPrefix(name, root+"/"); ok {
			return rest, true
		}
	}
	return "", false
}

// within calls do with name. If os.Root finds that name leaves the workspace, it resolves the symbolic links and calls do again:
// links with an absolute target in the workspace do not leave it. os.Root checks the second call too. last states whether the last
// element is followed.
func (w *Workspace) within(name string, last bool, do func(name string) error) error {
	err := do(name)
	if !fault.IsEscape(err) {
		return err
	}
	real, err := w.follow(name, last)
	if err != nil {
		return err
	}
	return do(real)
}

// follow resolves the symbolic links on a path.
func (w *Workspace) follow(name string, last bool) (string, error) {
	rest := strings.Split(name, "/")
	done := "."
	for links := 0; len(rest) > 0; {
		element := rest[0]
		rest = rest[1:]
		switch element {
		case "", ".":
			continue
		case "..":
			if done == "." {
				return "", escapes(name)
			}
			done = path.Dir(done)
			continue
		}
		here := path.Join(done, element)
		info, err := w.root.Lstat(here)
		if err != nil {
			// A missing file is no link; the operation itself reports it.
			return path.Join(append([]string{here}, rest...)...), nil
		}
		if info.Mode()&fs.ModeSymlink == 0 || len(rest) == 0 && !last {
			done = here
			continue
		}
		if links++; links > maxLinks {
			return "", fault.New(wire.CodePathEscapes, "%s goes through more than %d symbolic links", name, maxLinks)
		}
		target, err := w.root.Readlink(here)
		if errors.Is(err, unix.EINVAL) { // a program has replaced it
			rest = append([]string{element}, rest...)
			continue
		}
		if err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			inside, ok := w.inside(target)
			if !ok {
				return "", escapes(name)
			}
			done, target = ".", inside
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return done, nil
}

// refuseLinks fails if the path has a symbolic link, including the last element.
func (w *Workspace) refuseLinks(name string) error {
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		info, err := w.root.Lstat(name[:i])
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return fault.New(wire.CodePathEscapes, "%s is a symbolic link", name[:i])
		}
	}
	return nil
}

// openDir opens a directory, and nothing else.
func (w *Workspace) openDir(name string) (dir *os.File, err error) {
	err = w.within(name, true, func(name string) error {
		dir, err = w.root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
		return err
	})
	return dir, err
}

// openRegular opens a regular file for reading. It opens no others: opening a FIFO or a device has effects.
func (w *Workspace) openRegular(name string, follow bool) (file *os.File, err error) {
	if !follow {
		return w.openUnlinked(name)
	}
	err = w.within(name, true, func(name string) error {
		info, err := w.root.Stat(name)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return notFile(name, info.Mode())
		}
		file, err = w.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		return err
	})
	return checkRegular(name, file, err)
}

// openUnlinked opens a regular file whose path has no symbolic link, including the last element.
func (w *Workspace) openUnlinked(name string) (*os.File, error) {
	top, err := w.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer top.Close()
	look, err := openBeneath(int(top.Fd()), name, unix.O_PATH)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	var st unix.Stat_t
	err = unix.Fstat(look, &st)
	unix.Close(look)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, notFile(name, modeOf(st.Mode))
	}
	fd, err := openBeneath(int(top.Fd()), name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return checkRegular(name, os.NewFile(uintptr(fd), name), nil)
}

// checkRegular checks the opened file again.
func checkRegular(name string, file *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notFile(name, info.Mode())
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func notFile(name string, mode fs.FileMode) error {
	kind := "a special file"
	switch {
	case mode.IsDir():
		kind = "a directory"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a FIFO"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	}
	return fault.New(wire.CodeNotFile, "%s is %s", name, kind)
}

// modeOf converts the file type of a raw mode.
func modeOf(mode uint32) fs.FileMode {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return fs.ModeSocket
	case unix.S_IFBLK, unix.S_IFCHR:
		return fs.ModeDevice
	case unix.S_IFLNK:
		return fs.ModeSymlink
	}
	return 0
}
