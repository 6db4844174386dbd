//go:build linux

// Package file serves the workspace: it reads and changes files through os.Root, with the file system ids of the request's user.
package file

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/guest/identity"
	"github.com/belljar/belljar/internal/agent/wire"
)

// Serve performs a file operation.
func (w *Workspace) Serve(s Stream, op wire.Op, req wire.FileRequest) error {
	user := identity.ID{UID: req.UID, GID: req.GID}
	if !user.Valid() {
		return fault.Invalid("no such user: %d:%d", req.UID, req.GID)
	}
	if req.Offset < 0 || req.Limit < 0 {
		return fault.Invalid("negative offset or limit")
	}
	name, err := w.place(req.Path)
	if err != nil {
		return err
	}
	f := &fileOp{s: s, w: w, user: user, req: req, name: name}
	if req.NoFollow && op != wire.OpRead {
		if err := f.checkLinks(op); err != nil {
			return err
		}
	}
	switch op {
	case wire.OpStat:
		return f.stat()
	case wire.OpRead:
		return f.read()
	case wire.OpWrite, wire.OpReplace:
		return f.write()
	case wire.OpReadDir:
		return f.list(1)
	case wire.OpWalk:
		return f.list(maxDepth)
	case wire.OpMkdir:
		return s.done(f.mkdir())
	case wire.OpRename:
		return s.done(f.rename())
	case wire.OpDelete:
		return s.done(f.delete())
	case wire.OpTarIn:
		return f.tarIn()
	case wire.OpTarOut:
		return f.tarOut()
	case wire.OpMerge:
		return f.merge(false)
	case wire.OpMergeNew:
		return f.merge(true)
	case wire.OpScan:
		return f.scan()
	case wire.OpSpace:
		return f.space()
	case wire.OpSave:
		return f.save()
	case wire.OpLoad:
		return f.load()
	}
	return fault.Protocol("unknown operation %q", op)
}

// fileOp is one operation on files.
type fileOp struct {
	s    Stream
	w    *Workspace
	user identity.ID
	req  wire.FileRequest
	name string // Path, relative to the workspace
}

// as calls do with the requester's rights.
func (f *fileOp) as(do func() error) error { return f.w.own.As(f.user, do) }

// checkLinks refuses symbolic links on the path. The last element may be one if the operation creates it or does not follow it.
func (f *fileOp) checkLinks(op wire.Op) error {
	names := []string{f.name}
	switch op {
	case wire.OpStat, wire.OpDelete, wire.OpMkdir, wire.OpWrite, wire.OpReplace:
		names[0] = path.Dir(f.name)
	case wire.OpRename:
		to, err := f.w.place(f.req.To)
		if err != nil {
			return err
		}
		names = []string{path.Dir(f.name), path.Dir(to)}
	}
	return f.as(func() error {
		for _, name := range names {
			if err := f.w.refuseLinks(name); err != nil && !(f.req.Parents && errors.Is(err, fs.ErrNotExist)) {
				return err
			}
		}
		return nil
	})
}

func (f *fileOp) stat() error {
	var info wire.FileInfo
	err := f.as(func() error {
		return f.w.within(f.name, false, func(name string) (err error) {
			info, err = describe(f.w.root, name, f.name)
			return err
		})
	})
	if err != nil {
		return err
	}
	return f.s.reply(wire.Reply{File: &info})
}

// describe describes a file without following links. shown is its path in the reply.
func describe(root *os.Root, name, shown string) (out wire.FileInfo, err error) {
	for range describeTries {
		info, err := root.Lstat(name)
		if err != nil {
			return wire.FileInfo{}, err
		}
		out = fileInfo(info, shown)
		if out.Type != "symlink" {
			return out, nil
		}
		if out.Target, err = root.Readlink(name); !errors.Is(err, unix.EINVAL) {
			return out, err
		}
		// A program has replaced it between the two lookups.
	}
	return out, fault.New(wire.CodeNotFound, "%s does not stay the same", shown)
}

// describeTries is the number of attempts for a file that changes.
const describeTries = 20

func fileInfo(info fs.FileInfo, shown string) wire.FileInfo {
	out := wire.FileInfo{Path: shown, Type: "other", Size: info.Size(), ModTime: nanoseconds(info.ModTime()), Lossy: !utf8.ValidString(shown)}
	switch {
	case info.Mode().IsRegular():
		out.Type = "file"
	case info.IsDir():
		out.Type = "dir"
	case info.Mode()&fs.ModeSymlink != 0:
		out.Type = "symlink"
	}
	out.Mode = uint32(info.Mode().Perm())
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		out.Mode = st.Mode & 0o7777
	}
	return out
}

// nanoseconds returns a time in nanoseconds since 1970. A program can set one that they do not reach: it is 1677 or 2262 then.
func nanoseconds(t time.Time) int64 {
	const most = math.MaxInt64 / int64(time.Second)
	switch s := t.Unix(); {
	case s >= most:
		return math.MaxInt64
	case s < -most:
		return math.MinInt64
	}
	return t.UnixNano()
}

func (f *fileOp) read() error {
	var file *os.File
	err := f.as(func() (err error) {
		file, err = f.w.openRegular(f.name, !f.req.NoFollow)
		return err
	})
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if _, err := file.Seek(f.req.Offset, io.SeekStart); err != nil {
		return err
	}
	if err := f.s.reply(wire.Reply{File: new(fileInfo(info, f.name))}); err != nil {
		return fault.ErrDisconnected
	}
	var r io.Reader = file
	if f.req.Limit > 0 {
		r = io.LimitReader(file, f.req.Limit)
	}
	if err := f.send(r); err != nil {
		return err
	}
	return f.s.W.EOF()
}

// send copies r into Data frames.
func (f *fileOp) send(r io.Reader) error {
	buf := f.w.buffers.Get().(*[]byte)
	defer f.w.buffers.Put(buf)
	for {
		n, err := r.Read((*buf)[wire.DataRoom:])
		if n > 0 && f.s.W.DataInPlace((*buf)[:wire.DataRoom+n]) != nil {
			return fault.ErrDisconnected
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// onlyReader hides a reader's other methods, which io.CopyBuffer would prefer to its buffer.
type onlyReader struct{ io.Reader }

// write replaces a file atomically: it writes the contents to a temporary file and renames that.
func (f *fileOp) write() error {
	var t *target
	err := f.as(func() (err error) {
		t, err = f.openTarget()
		return err
	})
	if err != nil {
		return err
	}
	defer t.close()
	if t.from != t.dir {
		f.w.staging.swept.Do(f.sweep)
	}
	err = f.receive(t.file)
	if err == nil {
		err = f.as(func() error { return f.commit(t) })
	}
	if err != nil {
		_ = f.as(func() error { return unix.Unlinkat(int(t.from.Fd()), t.temporary, 0) }) // ignore a missing file
		return err
	}
	info, err := t.file.Stat()
	if err != nil {
		return err
	}
	t.file.Close() // before the reply: the caller may execute the file after it
	if info.Mode()&0o111 != 0 {
		f.w.awaitLaunches()
	}
	return f.s.reply(wire.Reply{File: new(fileInfo(info, f.name))})
}

// receive copies the stream's contents to w.
func (f *fileOp) receive(w io.Writer) error {
	_, err := io.Copy(onlyWriter{w}, &contents{s: f.s})
	return err
}

type onlyWriter struct{ io.Writer }

// openTarget finds the place for a file and creates the temporary file.
func (f *fileOp) openTarget() (*target, error) {
	name, mode := f.name, fs.FileMode(f.req.Mode&0o777)
	var info fs.FileInfo
	err := f.w.within(name, false, func(name string) (err error) {
		info, err = f.w.root.Lstat(name)
		return err
	})
	if err == nil && info.Mode()&fs.ModeSymlink != 0 && !f.req.NoReplace {
		if f.req.NoFollow {
			return nil, fault.New(wire.CodePathEscapes, "%s is a symbolic link", name)
		}
		if name, err = f.w.follow(name, true); err != nil {
			return nil, err
		}
		info, err = f.w.root.Lstat(name)
	}
	switch {
	case err == nil && f.req.NoReplace:
		return nil, fault.New(wire.CodeExists, "%s exists", name)
	case err == nil && !info.Mode().IsRegular():
		return nil, notFile(name, info.Mode())
	case err == nil && f.req.Mode == 0:
		mode = info.Mode().Perm()
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil && len(f.req.IfMatch) > 0:
		return nil, changed(name)
	case mode == 0:
		mode = 0o644
	}
	return f.beginTarget(name, mode, true)
}

// uniqueName returns a name that no other file has.
func uniqueName() (string, error) {
	var random [8]byte
	if _, err := unix.Getrandom(random[:], 0); err != nil {
		return "", err
	}
	return strconv.FormatUint(binary.BigEndian.Uint64(random[:]), 36), nil
}

// newFile makes [createIn] create a file that does not exist.
const newFile = unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW

// createIn creates a file in an open directory with exactly this mode, whatever the umask.
func createIn(dir *os.File, base string, flags int, mode fs.FileMode) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), base, unix.O_WRONLY|unix.O_CLOEXEC|flags, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: base, Err: err}
	}
	if err := unix.Fchmod(fd, uint32(mode.Perm())); err != nil {
		unix.Close(fd)
		return nil, &fs.PathError{Op: "chmod", Path: base, Err: err}
	}
	return os.NewFile(uintptr(fd), base), nil
}

// commit renames the file to its final name, if the existing file matches the request.
func (f *fileOp) commit(t *target) error {
	f.w.commits.Lock()
	defer f.w.commits.Unlock()
	if err := f.compare(t); err != nil {
		return err
	}
	if err := t.link(); err != nil {
		return err
	}
	return renameIn(t.from, t.temporary, t.dir, t.base, f.req.NoReplace)
}

func renameIn(from *os.File, old string, to *os.File, name string, noReplace bool) error {
	flags := uint(0)
	if noReplace {
		flags = unix.RENAME_NOREPLACE
	}
	if err := unix.Renameat2(int(from.Fd()), old, int(to.Fd()), name, flags); err != nil {
		return &os.LinkError{Op: "rename", Old: old, New: name, Err: err}
	}
	return nil
}

// mkdir makes a directory with exactly the requested mode. With Parents, an existing one is no error.
func (f *fileOp) mkdir() error {
	mode := fs.FileMode(f.req.Mode & 0o777)
	return f.as(func() error {
		return f.w.within(f.name, false, func(name string) error {
			if f.req.Parents {
				if err := f.w.root.MkdirAll(path.Dir(name), 0o755); err != nil {
					return err
				}
			}
			err := f.w.root.Mkdir(name, 0o755)
			if errors.Is(err, fs.ErrExist) && f.req.Parents {
				return f.w.isDir(name, err)
			}
			if err == nil && mode != 0 {
				err = f.w.root.Chmod(name, mode)
			}
			return err
		})
	})
}

// isDir returns err unless name is a directory, or a link to one.
func (w *Workspace) isDir(name string, err error) error {
	return w.within(name, true, func(name string) error {
		info, e := w.root.Stat(name)
		if e != nil {
			return e
		}
		if !info.IsDir() {
			return err
		}
		return nil
	})
}

func (f *fileOp) rename() error {
	to, err := f.w.place(f.req.To)
	if err != nil {
		return err
	}
	if f.name == "." || to == "." {
		return fault.Invalid("the workspace itself cannot be renamed or replaced")
	}
	return f.as(func() error {
		if f.req.Parents {
			if err := f.w.within(path.Dir(to), true, func(name string) error { return f.w.root.MkdirAll(name, 0o755) }); err != nil {
				return err
			}
		}
		from, err := f.w.openDir(path.Dir(f.name))
		if err != nil {
			return err
		}
		defer from.Close()
		dest, err := f.w.openDir(path.Dir(to))
		if err != nil {
			return err
		}
		defer dest.Close()
		return renameIn(from, path.Base(f.name), dest, path.Base(to), f.req.NoReplace)
	})
}

func (f *fileOp) delete() error {
	if f.name == "." {
		return fault.Invalid("the workspace itself cannot be deleted")
	}
	return f.as(func() error {
		return f.w.within(f.name, false, func(name string) error {
			if _, err := f.w.root.Lstat(name); err != nil {
				return err
			}
			if f.req.Recursive {
				return f.w.removeTree(name)
			}
			return f.w.root.Remove(name)
		})
	})
}
