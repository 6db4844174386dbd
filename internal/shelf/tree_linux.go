package shelf

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// paxAttribute begins the names of extended attributes in an archive.
const paxAttribute = "SCHILY.xattr."

// tree is a workspace that is being unpacked.
type tree struct {
	root     *os.Root
	uid, gid int
	dir      *os.File // folder of the previous entry
	at       string   // its path
	made     map[string]*tar.Header
	bytes    int64
	files    int64
}

// unpackTree unpacks a workspace, and returns its size in memory.
func unpackTree(from io.Reader, dir string, most int64, uid, gid int) (bytes, files int64, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, 0, err
	}
	defer root.Close()
	t := &tree{root: root, uid: uid, gid: gid, made: map[string]*tar.Header{".": nil}}
	defer t.leave()
	if err := errors.Join(root.Chmod(".", 0o755), root.Chown(".", uid, gid)); err != nil {
		return 0, 0, err
	}
	r, buf := tar.NewReader(from), make([]byte, 64<<10)
	for {
		head, err := r.Next()
		if err == io.EOF {
			if _, err = io.Copy(io.Discard, from); err == nil { // the reader may detect damage only at the end
				break
			}
		}
		if err == nil && t.bytes > most {
			return 0, 0, ErrTooLarge
		}
		if err == nil {
			err = t.entry(head, r, buf)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return t.bytes, t.files, t.setFolders()
}

func (t *tree) leave() {
	if t.dir != nil {
		t.dir.Close()
	}
}

// folder opens a folder, and creates it if necessary.
func (t *tree) folder(name string) (*os.File, error) {
	if t.dir != nil && t.at == name {
		return t.dir, nil
	}
	if _, is := t.made[name]; !is {
		if err := t.mkdir(name); err != nil {
			return nil, err
		}
	}
	dir, err := t.root.Open(name)
	if err != nil {
		return nil, err
	}
	t.leave()
	t.dir, t.at = dir, name
	return dir, nil
}

func (t *tree) mkdir(name string) error {
	if _, is := t.made[name]; is {
		return nil
	}
	if err := t.mkdir(path.Dir(name)); err != nil {
		return err
	}
	t.made[name] = nil
	t.files++
	return errors.Join(t.root.Mkdir(name, 0o755), t.root.Lchown(name, t.uid, t.gid))
}

// entry makes one entry.
func (t *tree) entry(head *tar.Header, r io.Reader, buf []byte) error {
	name := path.Clean(head.Name)
	if !filepath.IsLocal(name) || name == "." {
		return fmt.Errorf("%w: %.200q", ErrBad, head.Name)
	}
	if head.Typeflag == tar.TypeDir {
		if err := t.mkdir(name); err != nil {
			return err
		}
		t.made[name] = head
		return nil
	}
	dir, err := t.folder(path.Dir(name))
	if err != nil {
		return err
	}
	fd, base := int(dir.Fd()), path.Base(name)
	switch head.Typeflag {
	case tar.TypeReg:
		t.files++
		return t.file(fd, base, head, r, buf)
	case tar.TypeLink:
		if !filepath.IsLocal(head.Linkname) {
			return fmt.Errorf("%w: %.200q", ErrBad, head.Name)
		}
		return t.root.Link(head.Linkname, name)
	case tar.TypeSymlink:
		t.files++
		err := unix.Symlinkat(head.Linkname, fd, base)
		return errors.Join(err, unix.Fchownat(fd, base, t.uid, t.gid, unix.AT_SYMLINK_NOFOLLOW), setTime(fd, base, head.ModTime))
	}
	return fmt.Errorf("%w: %.200q is of type %q", ErrBad, head.Name, head.Typeflag)
}

// file writes a file, with holes for blocks of zeros.
func (t *tree) file(dir int, base string, head *tar.Header, r io.Reader, buf []byte) (err error) {
	fd, err := unix.Openat(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	defer func() { err = errors.Join(err, f.Close()) }()
	n, err := fill(f, r, head.Size, buf)
	if err != nil {
		return err
	}
	t.bytes += (n + page - 1) / page * page
	if err := errors.Join(unix.Fchown(fd, t.uid, t.gid), setAttributes(fd, head), unix.Fchmod(fd, uint32(head.Mode)&0o777)); err != nil {
		return err
	}
	return setTime(dir, base, head.ModTime)
}

// setFolders sets the modes, attributes and times of folders, the deepest first.
func (t *tree) setFolders() error {
	names := make([]string, 0, len(t.made))
	for name, head := range t.made {
		if head != nil {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	for _, name := range names {
		head := t.made[name]
		dir, err := t.root.Open(name)
		if err == nil {
			err = errors.Join(setAttributes(int(dir.Fd()), head), dir.Chmod(os.FileMode(head.Mode)&0o777), dir.Close(), t.root.Chtimes(name, head.ModTime, head.ModTime))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func setAttributes(fd int, head *tar.Header) error {
	for key, value := range head.PAXRecords {
		if name, is := strings.CutPrefix(key, paxAttribute); is && strings.HasPrefix(name, "user.") {
			if err := unix.Fsetxattr(fd, name, []byte(value), 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush syncs the files below a folder. One call for the file system is faster than one for each file.
func flush(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd()))), f.Close())
}

// setTime sets the time of an entry, and of a link itself.
func setTime(dir int, base string, at time.Time) error {
	ts := unix.NsecToTimespec(at.UnixNano())
	return unix.UtimesNanoAt(dir, base, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}

func setLinkTime(root *os.Root, name string, at time.Time) error {
	dir, err := root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	return setTime(int(dir.Fd()), path.Base(name), at)
}
