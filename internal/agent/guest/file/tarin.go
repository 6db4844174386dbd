//go:build linux

package file

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/wire"
)

// tarIn unpacks a stream below the request's path. After a failure, earlier entries remain, and every other file is as it was.
func (f *fileOp) tarIn() error {
	n, err := f.unpack(&unpacker{f: f})
	if err != nil {
		return err
	}
	return f.s.reply(wire.Reply{Done: true, Bytes: n})
}

// unpack unpacks the stream's contents with u and returns the number of bytes of file contents.
func (f *fileOp) unpack(u *unpacker) (int64, error) {
	body := &contents{s: f.s}
	u.modes = make(map[string]fs.FileMode)
	defer u.close()
	if err := u.mkdir(f.name); err != nil {
		return 0, err
	}
	r := tar.NewReader(body)
	for {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, u.malformed(body, err)
		}
		if err := u.entry(head, r); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrHeader) || body.failed() {
				return 0, u.malformed(body, err)
			}
			return 0, err
		}
	}
	// The archive may end with padding; the stream ends with its EOF.
	if _, err := io.Copy(io.Discard, body); err != nil {
		return 0, err
	}
	if u.programs {
		f.w.awaitLaunches()
	}
	if u.load != nil {
		return u.bytes, u.setFolders()
	}
	return u.bytes, u.setModes()
}

// unpacker is the destination of a tar stream.
type unpacker struct {
	f     *fileOp
	stage bool // for a merge: no links, and folders that can be moved and removed again
	load  *loader
	bytes int64
	modes map[string]fs.FileMode // of directories, set at the end: a mode may forbid writing
	dir   *os.File               // the previous directory
	at    string                 // its path

	programs bool // an executable file was unpacked
}

func (u *unpacker) malformed(body *contents, err error) error {
	if body.failed() {
		return body.end // an error of the stream, not of the archive
	}
	return fault.Invalid("malformed archive: %v", err)
}

// entry unpacks one entry.
func (u *unpacker) entry(head *tar.Header, r io.Reader) error {
	if head.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := u.place(head.Name)
	if err != nil {
		return err
	}
	switch head.Typeflag {
	case tar.TypeReg:
		return u.file(name, head, r)
	case tar.TypeDir:
		mkdir := u.mkdir
		if u.load != nil {
			mkdir = u.folder
		}
		if err := mkdir(name); err != nil {
			return fmt.Errorf("archive entry %s: %w", head.Name, err)
		}
		if name != u.f.name {
			if u.load != nil {
				u.load.folders[name] = head
			}
			u.modes[name] = fs.FileMode(head.Mode) & 0o777
			if u.stage {
				u.modes[name] |= 0o700
			}
		}
		return nil
	case tar.TypeSymlink:
		if u.stage {
			return fault.Invalid("archive entry %s is a symbolic link", head.Name)
		}
		return u.symlink(name, head)
	case tar.TypeLink:
		if u.load != nil {
			return u.link(name, head)
		}
		return fault.Invalid("archive entry %s is a hard link", head.Name)
	case tar.TypeFifo:
		return fault.Invalid("archive entry %s is a FIFO", head.Name)
	case tar.TypeChar, tar.TypeBlock:
		return fault.Invalid("archive entry %s is a device", head.Name)
	}
	return fault.Invalid("archive entry %s is of the unknown type %q", head.Name, head.Typeflag)
}

// place refuses a name that is absolute or contains "..".
func (u *unpacker) place(name string) (string, error) {
	if path.IsAbs(name) || strings.ContainsRune(name, 0) || len(name) > maxPath {
		return "", fault.New(wire.CodePathEscapes, "archive entry %s is not a relative path", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fault.New(wire.CodePathEscapes, "archive entry %s leads out of the folder", name)
		}
	}
	return path.Join(u.f.name, name), nil
}

func (u *unpacker) mkdir(name string) error {
	if name == "." {
		return nil
	}
	return u.f.as(func() error {
		return u.f.w.within(name, true, func(name string) error { return u.f.w.root.MkdirAll(name, 0o755) })
	})
}

// parent opens the directory of name, and creates it if necessary. Runs with the requester's rights.
func (u *unpacker) parent(name string) (*os.File, error) {
	at := path.Dir(name)
	if u.dir != nil && u.at == at {
		return u.dir, nil
	}
	u.close()
	dir, err := u.f.w.openDir(at)
	if errors.Is(err, fs.ErrNotExist) {
		err = u.f.w.within(at, true, func(name string) error { return u.f.w.root.MkdirAll(name, 0o755) })
		if err == nil {
			dir, err = u.f.w.openDir(at)
		}
	}
	if err != nil {
		return nil, err
	}
	u.dir, u.at = dir, at
	return dir, nil
}

func (u *unpacker) close() {
	if u.dir != nil {
		u.dir.Close()
		u.dir = nil
	}
}

func (u *unpacker) file(name string, head *tar.Header, r io.Reader) error {
	if name == u.f.name {
		return fault.Invalid("archive entry %s has no name", head.Name)
	}
	var file *os.File
	var t *target // replaces a file; nil for a new one
	at := path.Base(name)
	err := u.f.as(func() error {
		dir, err := u.parent(name)
		if err != nil {
			return err
		}
		mode := fs.FileMode(head.Mode)
		if u.load != nil {
			mode = 0o600 // the final mode may forbid setting attributes
		}
		if file, err = createIn(dir, at, newFile, mode); errors.Is(err, fs.ErrExist) {
			if t, err = u.replace(dir, name, mode); err == nil {
				file, at = t.file, t.temporary
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("archive entry %s: %w", head.Name, err)
	}
	defer file.Close()
	if t != nil {
		defer t.close()
		if t.from != t.dir {
			u.f.w.staging.swept.Do(u.f.sweep)
		}
	}
	u.programs = u.programs || head.Mode&0o111 != 0
	buf := u.f.w.buffers.Get().(*[]byte)
	defer u.f.w.buffers.Put(buf)
	var to io.Writer = onlyWriter{file}
	if u.load != nil {
		to = &holes{file: file}
	}
	n, err := io.CopyBuffer(to, onlyReader{r}, *buf)
	u.bytes += n
	if err == nil && t != nil {
		err = u.f.as(t.link)
	}
	switch {
	case err != nil:
	case u.load != nil:
		err = u.finish(file, at, head)
	case head.ModTime.Unix() > 0: // else the file keeps its present time
		t := unix.NsecToTimeval(head.ModTime.UnixNano())
		err = u.f.as(func() error { return unix.Futimes(int(file.Fd()), []unix.Timeval{t, t}) }) // the owner has this right
	}
	if err == nil && t != nil {
		err = u.f.as(func() error { return u.f.commit(t) })
	}
	if err != nil {
		from := u.dir
		if t != nil {
			from = t.from
		}
		_ = u.f.as(func() error { return unix.Unlinkat(int(from.Fd()), at, 0) }) // no part of it remains
		return fmt.Errorf("archive entry %s: %w", head.Name, err)
	}
	return nil
}

// replace begins a file that replaces another file or link once it is complete: a volume's file outlives a failure.
func (u *unpacker) replace(dir *os.File, name string, mode fs.FileMode) (*target, error) {
	base := path.Base(name)
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil, &fs.PathError{Op: "replace", Path: base, Err: unix.EISDIR}
	}
	t, err := u.f.beginTarget(name, mode, u.load == nil) // a new sandbox is loaded, and ends if that fails
	if bad, is := errors.AsType[*fs.PathError](err); is {
		return nil, &fs.PathError{Op: "replace", Path: base, Err: bad.Err} // without the temporary name
	}
	return t, err
}

// symlink creates a link, whose target must lie in the workspace.
func (u *unpacker) symlink(name string, head *tar.Header) error {
	target := head.Linkname
	outside := fault.New(wire.CodePathEscapes, "archive entry %s links to %s, outside of the workspace", head.Name, target)
	if u.load != nil {
		// A program may make any link, and nothing here follows one.
	} else if path.IsAbs(target) {
		if _, ok := u.f.w.inside(target); !ok {
			return outside
		}
	} else if to := path.Join(path.Dir(name), target); to == ".." || strings.HasPrefix(to, "../") {
		return outside
	}
	err := u.f.as(func() error {
		dir, err := u.parent(name)
		if err != nil {
			return err
		}
		base := path.Base(name)
		err = unix.Symlinkat(target, int(dir.Fd()), base)
		if err == unix.EEXIST {
			if err := unix.Unlinkat(int(dir.Fd()), base, 0); err != nil {
				return err
			}
			err = unix.Symlinkat(target, int(dir.Fd()), base)
		}
		if err == nil && u.load != nil {
			err = setTime(int(dir.Fd()), base, head.ModTime)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("archive entry %s: %w", head.Name, err)
	}
	return nil
}

// setModes sets the modes of directories.
func (u *unpacker) setModes() error {
	return u.f.as(func() error {
		for name, mode := range u.modes {
			err := u.f.w.within(name, true, func(name string) error { return u.f.w.root.Chmod(name, mode) })
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				return err
			}
		}
		return nil
	})
}
