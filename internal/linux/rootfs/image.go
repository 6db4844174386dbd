//go:build linux

package rootfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Limits of an image's root. Each name in the root folder is a mount.
const (
	mostNames = 1000
	mostEtc   = 256      // names in /etc, if it has to be assembled
	mostText  = 64 << 10 // bytes of a file in /etc to which a line is added
)

// ErrImage means that an image cannot be the root of a sandbox.
var ErrImage = errors.New("the image cannot be used")

// Image returns the root of an unpacked image: everything in its root folder, read-only, except [Reserved] names. An error is
// fs.ErrNotExist if dir is missing, and [ErrImage] if it cannot be used.
//
// localhost, the user's own name and the names of a relay can be looked up, whatever the image has in /etc: our files cover the
// image's, and if files are missing, /etc is assembled from the image's and ours. Its /var/tmp and /var/run, if they are folders,
// are /tmp and /run.
func Image(dir string, u User) (*Tree, error) {
	top, err := openFolder(unix.AT_FDCWD, dir)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	if NoExec(dir) {
		return nil, fmt.Errorf("%w: %s is on a file system mounted noexec", ErrImage, dir)
	}
	t := &Tree{Dir: dir}
	names, err := list(top, mostNames)
	if err != nil {
		return nil, fmt.Errorf("%w: its root folder: %w", ErrImage, err)
	}
	u = u.Fill()
	for _, name := range names {
		if slices.Contains(Reserved(), name) {
			continue
		}
		if name == "etc" {
			if err := t.etc(top, u); err != nil {
				return nil, fmt.Errorf("%w: its /etc: %w", ErrImage, err)
			}
			continue
		}
		if err := t.take(top, name, name); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrImage, err)
		}
		if name == "var" {
			if err := t.writable(top); err != nil {
				return nil, fmt.Errorf("%w: its /var: %w", ErrImage, err)
			}
		}
	}
	if !t.has("etc") {
		t.Parts = append(t.Parts, written(u)...)
	}
	if !t.has("var") {
		t.Parts = append(t.Parts, variable()...)
	}
	return t, nil
}

// NoExec reports whether a file or folder is on a file system that is mounted noexec: no program below it can be executed, or mapped as a library.
func NoExec(name string) bool {
	var on unix.Statfs_t
	return unix.Statfs(name, &on) == nil && on.Flags&unix.ST_NOEXEC != 0
}

// has reports whether the tree has a part of that name, or below it.
func (t *Tree) has(name string) bool {
	return slices.ContainsFunc(t.Parts, func(p Part) bool { return p.Name == name || strings.HasPrefix(p.Name, name+"/") })
}

// take adds the folder, file or link base of an open folder as name. It ignores other types.
func (t *Tree) take(folder *os.File, base, name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(int(folder.Fd()), base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &fs.PathError{Op: "lstat", Path: name, Err: err}
	}
	p := Part{Name: name, Kind: Bind, Source: name}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target, err := readLink(folder, base)
		if err != nil {
			return &fs.PathError{Op: "readlink", Path: name, Err: err}
		}
		p = Part{Name: name, Kind: Link, Target: target}
	case unix.S_IFDIR:
	case unix.S_IFREG:
		p.File = true
	default:
		return nil
	}
	t.Parts = append(t.Parts, p)
	return nil
}

// writable makes the folders of /var writable that programs expect to be.
func (t *Tree) writable(top *os.File) error {
	folder, err := openFolder(int(top.Fd()), "var")
	if err != nil {
		return notFolder(err)
	}
	defer folder.Close()
	for _, name := range []string{"tmp", "run"} {
		if mode(folder, name) == unix.S_IFDIR {
			t.Parts = append(t.Parts, Part{Name: "var/" + name, Kind: BindWritable, Target: name, Over: true})
		}
	}
	return nil
}

// etc takes an image's /etc.
func (t *Tree) etc(top *os.File, u User) error {
	folder, err := openFolder(int(top.Fd()), "etc")
	if notFolder(err) != nil {
		return err
	}
	if err != nil {
		return t.take(top, "etc", "etc")
	}
	defer folder.Close()
	ours := covers(folder, u)
	if names, err := list(folder, mostEtc); err == nil && lacks(folder) {
		return t.patchwork(folder, names, ours, u)
	}
	if err := t.take(top, "etc", "etc"); err != nil {
		return err
	}
	for _, p := range ours {
		p.Over = true
		t.Parts = append(t.Parts, p)
	}
	return nil
}

// lacks reports whether an image lacks files in /etc without which programs do not work.
func lacks(etc *os.File) bool {
	return slices.ContainsFunc([]string{"hosts", "passwd", "group"}, func(name string) bool { return mode(etc, name) == 0 }) || foreign(etc)
}

// foreign reports whether an image leaves its list of name servers to another program: the file is missing, or a link.
func foreign(etc *os.File) bool {
	m := mode(etc, resolver)
	return m == 0 || m == unix.S_IFLNK
}

// resolver is the file that lists the name servers.
const resolver = "resolv.conf"

// patchwork assembles /etc from the image's files and ours.
func (t *Tree) patchwork(etc *os.File, names []string, ours []Part, u User) error {
	named := func(name string) func(Part) bool {
		return func(p Part) bool { return p.Name == "etc/"+name }
	}
	if foreign(etc) {
		names = slices.DeleteFunc(names, func(name string) bool { return name == resolver })
	}
	for _, name := range names {
		if slices.ContainsFunc(ours, named(name)) {
			continue
		}
		if err := t.take(etc, name, "etc/"+name); err != nil {
			return err
		}
	}
	t.Parts = append(t.Parts, ours...)
	for _, p := range written(u) {
		if !slices.ContainsFunc(names, func(name string) bool { return named(name)(p) }) {
			t.Parts = append(t.Parts, p)
		}
	}
	return nil
}

// covers lists Belljar's files that replace those of an image's /etc. Only plain files are replaced.
func covers(etc *os.File, u User) (list []Part) {
	for _, p := range written(u) {
		name := p.Name[len("etc/"):]
		if mode(etc, name) != unix.S_IFREG {
			continue
		}
		var line string
		id := u.UID
		switch name {
		case "nsswitch.conf":
			continue
		case "passwd":
			line = passwdLine(u)
		case "group":
			line, id = groupLine(u), u.GID
		}
		if line != "" {
			had, ok := readText(etc, name)
			if !ok {
				continue
			}
			p.Text = withLine(had, id, line)
			if name == "passwd" {
				p.Text = withHome(p.Text, id)
			}
			if p.Text == had {
				continue
			}
		}
		list = append(list, p)
	}
	return list
}

// readText reads a short file that contains only text.
func readText(folder *os.File, name string) (string, bool) {
	fd, err := unix.Openat(int(folder.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", false
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	text, err := io.ReadAll(io.LimitReader(f, mostText+1))
	if err != nil || len(text) > mostText || bytes.IndexByte(text, 0) >= 0 {
		return "", false
	}
	return string(text), true
}

// openFolder opens a folder without following a link.
func openFolder(at int, name string) (*os.File, error) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// notFolder returns err, or nil if it means that there is no folder of that name.
func notFolder(err error) error {
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// list returns the sorted names in a folder; an error if there are more than most.
func list(folder *os.File, most int) ([]string, error) {
	names, err := folder.Readdirnames(most + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(names) > most {
		return nil, fmt.Errorf("more than %d names", most)
	}
	slices.Sort(names)
	return names, nil
}

// mode returns the type of a name in a folder, as S_IFMT; 0 if it is missing.
func mode(folder *os.File, name string) uint32 {
	var st unix.Stat_t
	if err := unix.Fstatat(int(folder.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0
	}
	return st.Mode & unix.S_IFMT
}

func readLink(folder *os.File, name string) (string, error) {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(folder.Fd()), name, target)
	if err != nil {
		return "", err
	}
	return string(target[:n]), nil
}
