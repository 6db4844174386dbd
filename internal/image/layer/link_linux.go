package layer

import (
	"archive/tar"
	"strings"

	"golang.org/x/sys/unix"
)

// symlink makes a symbolic link, to any target.
func (u *unpacker) symlink(h *tar.Header, parent *folder, name string) error {
	switch {
	case h.Linkname == "":
		return refuse("symlink", h.Name, "a symbolic link to nothing")
	case len(h.Linkname) > maxPath:
		return refuse("symlink", h.Name, "a symbolic link to more than %d bytes", maxPath)
	case strings.IndexByte(h.Linkname, 0) >= 0:
		return refuse("symlink", h.Name, "a symbolic link with a NUL in it")
	}
	at, err := u.place(parent, name, func(at int) error { return unix.Symlinkat(h.Linkname, at, name) })
	if err == nil {
		err = setTime(at, name, timespec(h.ModTime))
	}
	if err != nil {
		return failed("make the symbolic link", h.Name, err)
	}
	u.stats.Symlinks++
	return nil
}

// hardLink gives a file of the same layer an additional name.
func (u *unpacker) hardLink(h *tar.Header, parent *folder, name string) error {
	elements, err := split(h.Name, h.Linkname)
	if err != nil {
		return err
	}
	missing := refuse("hard_link", h.Name, "a hard link to %s, which is missing", shown(h.Linkname))
	if len(elements) == 0 {
		return refuse("hard_link", h.Name, "a hard link to a folder")
	}
	target := elements[len(elements)-1]
	if isMark(target) && !isMeta(target) {
		return refuse("whiteout", h.Name, "a hard link to a whiteout")
	}
	folder, err := u.walk(h.Name, elements[:len(elements)-1], false)
	switch {
	case err != nil:
		return err
	case folder == nil:
		return missing
	case folder.kids[target] != nil:
		return refuse("hard_link", h.Name, "a hard link to a folder")
	}
	if folder.within(parent.kids[name]) { // the link would replace a parent of its target
		return missing
	}
	from, err := u.there.fd(folder)
	if err != nil {
		return failed("open the folder of", h.Linkname, err)
	}
	var st unix.Stat_t
	switch err = unix.Fstatat(from, target, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == unix.ENOENT && u.leftOut(from, target):
		return u.node(&tar.Header{Name: h.Name, Typeflag: tar.TypeFifo}, parent, name)
	case err == unix.ENOENT:
		return missing
	case err != nil:
		return failed("look at", h.Linkname, err)
	case folder == parent && target == name:
		return nil // the same name twice in an archive
	}
	_, err = u.place(parent, name, func(at int) error {
		err := unix.Linkat(from, target, at, name, 0)
		if cannotLink(err) {
			if err := u.room(h.Name, st.Size); err != nil {
				return err
			}
			n, err := copyAt(u.ctx, from, at, target, name)
			u.stats.Bytes += n
			return err
		}
		return err
	})
	if err != nil {
		return failed("link", h.Name, err)
	}
	u.stats.HardLinks++
	return nil
}
