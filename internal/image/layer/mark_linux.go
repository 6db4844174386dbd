package layer

import (
	"archive/tar"

	"golang.org/x/sys/unix"
)

// Modes of marks. The mark of a left-out device differs from a whiteout, because hard links to it are left out as
// well.
const (
	whiteoutMode = 0o600
	leftOutMode  = 0o400
)

// mark makes a mark, unless it exists.
func (u *unpacker) mark(entry string, parent *folder, name string, mode uint32) error {
	at, err := u.here.fd(parent)
	if err == nil {
		err = unix.Mknodat(at, name, unix.S_IFREG|mode, 0)
	}
	if err != nil && err != unix.EEXIST {
		return failed("mark", entry, err)
	}
	if mode == whiteoutMode {
		u.stats.Whiteouts++
	}
	return nil
}

// node makes the mark of a device, FIFO or socket, which hides the same lower files.
func (u *unpacker) node(h *tar.Header, parent *folder, name string) error {
	mark := markPrefix + name
	if len(mark) > maxElement {
		return refuse("name", h.Name, "a device with a name of more than %d bytes", maxElement-len(markPrefix))
	}
	if err := u.clear(parent, name); err != nil {
		return failed("replace", h.Name, err)
	}
	if h.Typeflag == tar.TypeChar && h.Devmajor == 0 && h.Devminor == 0 {
		return u.mark(h.Name, parent, mark, whiteoutMode)
	}
	u.stats.Skipped++
	return u.mark(h.Name, parent, mark, leftOutMode)
}

// leftOut reports whether a device, FIFO or socket of that name was left out.
func (u *unpacker) leftOut(at int, name string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(at, markPrefix+name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && st.Mode&0o777 == leftOutMode
}
