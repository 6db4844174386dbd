//go:build linux

package file

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/wire"
)

// paxAttribute begins the names of extended attributes in an archive, and userAttribute those that programs of the user may set.
const (
	paxAttribute  = "SCHILY.xattr."
	userAttribute = "user."
)

// Limits of the extended attributes of one file.
const (
	maxAttributes     = 64
	maxAttributeBytes = 64 << 10
)

// saver remembers the packed files that have several names.
type saver struct{ names map[inode]string }

type inode struct{ dev, ino uint64 }

// link returns the name under which a file was packed before; "" for none.
func (s *saver) link(name string, info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Nlink < 2 {
		return ""
	}
	key := inode{uint64(st.Dev), st.Ino}
	first := s.names[key]
	if first == "" {
		s.names[key] = name
	}
	return first
}

// save packs the whole workspace. The caller replies.
func (f *fileOp) save() error {
	out := bufio.NewWriterSize(dataWriter{f.s}, wire.MaxData)
	p := &packer{f: f, w: tar.NewWriter(out), saver: &saver{map[inode]string{}}}
	if err := p.pack("."); err != nil {
		return err
	}
	if err := p.w.Close(); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.s.W.EOF()
}

// folder adds a folder's extended attributes to its header.
func (p *packer) folder(head *tar.Header, dir *os.Root, base string) error {
	if dir == nil {
		return nil
	}
	var file *os.File
	err := p.f.as(func() (err error) {
		file, err = dir.OpenFile(base, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		return err
	})
	if errors.Is(err, fs.ErrPermission) {
		return denied(strings.TrimSuffix(head.Name, "/"))
	}
	if err != nil {
		return nil // the folder was removed meanwhile
	}
	defer file.Close()
	return p.attributes(head, file)
}

// attributes adds a file's extended attributes to its header. The user reads them: the file's mode can hide them from others.
func (p *packer) attributes(head *tar.Header, file *os.File) error {
	return p.f.as(func() error { return attributes(head, file) })
}

func attributes(head *tar.Header, file *os.File) error {
	fd := int(file.Fd())
	size, err := unix.Flistxattr(fd, nil)
	if err != nil || size == 0 {
		return nil // the file system has no attributes
	}
	list := make([]byte, size)
	if size, err = unix.Flistxattr(fd, list); err != nil {
		return nil
	}
	total, count := 0, 0
	for name := range bytes.SplitSeq(list[:size], []byte{0}) {
		if !bytes.HasPrefix(name, []byte(userAttribute)) || bytes.ContainsAny(name, "=") {
			continue
		}
		value := make([]byte, maxAttributeBytes)
		n, err := unix.Fgetxattr(fd, string(name), value)
		if err != nil {
			continue // the attribute was removed meanwhile
		}
		if total += len(name) + n; total > maxAttributeBytes || count == maxAttributes {
			return fault.New(wire.CodeTooLarge, "%s has more than %d extended attributes, or than %d bytes of them", head.Name, maxAttributes, maxAttributeBytes)
		}
		count++
		if head.PAXRecords == nil {
			head.PAXRecords = map[string]string{}
		}
		head.PAXRecords[paxAttribute+string(name)] = string(value[:n])
	}
	return nil
}

// loader holds the attributes to set after everything is unpacked.
type loader struct{ folders map[string]*tar.Header }

// load unpacks a stream of save.
func (f *fileOp) load() error {
	n, err := f.unpack(&unpacker{f: f, load: &loader{map[string]*tar.Header{}}})
	if err != nil {
		return err
	}
	return f.s.reply(wire.Reply{Done: true, Bytes: n})
}

// folder makes a folder that can be filled. A volume may already have a closed folder, or a file of that name.
func (u *unpacker) folder(name string) error {
	if name == "." {
		return nil
	}
	return u.f.as(func() error {
		dir, err := u.parent(name)
		if err != nil {
			return err
		}
		fd, base := int(dir.Fd()), path.Base(name)
		var st unix.Stat_t
		err = unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
		switch {
		case err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&0o700 == 0o700:
			return nil
		case err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR:
			return unix.Fchmodat(fd, base, st.Mode&0o777|0o700, 0)
		case err == nil:
			err = unix.Unlinkat(fd, base, 0)
		case err == unix.ENOENT:
			err = nil
		}
		return cmp.Or(err, unix.Mkdirat(fd, base, 0o700))
	})
}

// link makes an additional name of an unpacked file.
func (u *unpacker) link(name string, head *tar.Header) error {
	old, err := u.place(head.Linkname)
	if err != nil {
		return err
	}
	err = u.f.as(func() error {
		from, err := u.f.w.openDir(path.Dir(old))
		if err != nil {
			return err
		}
		defer from.Close()
		dir, err := u.parent(name)
		if err != nil {
			return err
		}
		link := func() error { return unix.Linkat(int(from.Fd()), path.Base(old), int(dir.Fd()), path.Base(name), 0) }
		if err = link(); err == unix.EEXIST { // a volume may already have it
			err = errors.Join(unix.Unlinkat(int(dir.Fd()), path.Base(name), 0), link())
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("archive entry %s: %w", head.Name, err)
	}
	return nil
}

// finish sets the length, attributes and time of a file, of this name in its folder, whose contents are written.
func (u *unpacker) finish(file *os.File, at string, head *tar.Header) error {
	return u.f.as(func() error {
		if err := file.Truncate(head.Size); err != nil { // the end may be a hole
			return err
		}
		if err := setAttributes(int(file.Fd()), head); err != nil {
			return err
		}
		if err := file.Chmod(fs.FileMode(head.Mode) & 0o777); err != nil {
			return err
		}
		return setTime(int(u.dir.Fd()), at, head.ModTime)
	})
}

// setFolders sets the modes, attributes and times of folders, the deepest first: a mode may forbid access to the folders below.
func (u *unpacker) setFolders() error {
	names := slices.SortedFunc(maps.Keys(u.load.folders), func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	return u.f.as(func() error {
		for _, name := range names {
			head := u.load.folders[name]
			dir, err := u.f.w.openDir(name)
			if err != nil {
				return err
			}
			err = setAttributes(int(dir.Fd()), head)
			if err == nil {
				err = dir.Chmod(u.modes[name])
			}
			if err == nil {
				at := unix.NsecToTimespec(head.ModTime.UnixNano())
				err = unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), []unix.Timespec{at, at}, 0)
			}
			dir.Close()
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func setAttributes(fd int, head *tar.Header) error {
	for name, value := range head.PAXRecords {
		name, is := strings.CutPrefix(name, paxAttribute)
		if !is || !strings.HasPrefix(name, userAttribute) {
			continue
		}
		if err := unix.Fsetxattr(fd, name, []byte(value), 0); err != nil && err != unix.ENOTSUP && err != unix.EPERM {
			return err
		}
	}
	return nil
}

// setTime sets the time of a folder's entry; for a link, of the link itself.
func setTime(dir int, base string, t time.Time) error {
	at := unix.NsecToTimespec(t.UnixNano())
	return unix.UtimesNanoAt(dir, base, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
}

// holes writes a file, and leaves out blocks of zeros.
type holes struct {
	file *os.File
	at   int64
}

// holeSize is the size and alignment of a block that may become a hole.
const holeSize = 4096

func (h *holes) Write(b []byte) (n int, err error) {
	for n < len(b) {
		part := b[n:min(len(b), n+int(holeSize-h.at%holeSize))]
		if !zero(part) {
			// Consecutive non-zero blocks become one write.
			end := n + len(part)
			for end < len(b) {
				next := b[end:min(len(b), end+holeSize)]
				if zero(next) {
					break
				}
				end += len(next)
			}
			part = b[n:end]
			if _, err := h.file.WriteAt(part, h.at); err != nil {
				return n, err
			}
		}
		n += len(part)
		h.at += int64(len(part))
	}
	return n, nil
}

func zero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

var _ io.Writer = (*holes)(nil)
