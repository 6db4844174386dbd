package layer

import (
	"archive/tar"
	"strings"

	"golang.org/x/sys/unix"
)

// attrPrefix is how archives name extended attributes among their records.
const attrPrefix = "SCHILY.xattr."

// keepAttr reports whether an extended attribute may stay. Those of overlay mounts would make one believe things.
func keepAttr(name string) bool {
	return strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay.")
}

// hasAttrs reports whether an entry has any.
func hasAttrs(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, attrPrefix) {
			return true
		}
	}
	return false
}

// attrs sets the extended attributes of an entry that may stay and that the file system takes.
func (u *unpacker) attrs(h *tar.Header, fd int) error {
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, attrPrefix)
		if !ok {
			continue
		}
		if !keepAttr(name) || unix.Fsetxattr(fd, name, []byte(value), 0) != nil {
			u.stats.Attrs++
		} else if err := u.room(h.Name, int64(len(value))); err != nil {
			return err
		}
	}
	return nil
}

// folderAttrs is attrs for a folder, which may have had others, and which overlay mounts make opaque with one.
func (u *unpacker) folderAttrs(h *tar.Header, f *folder) error {
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, attrPrefix)
		if ok && value == "y" && (name == "trusted.overlay.opaque" || name == "user.overlay.opaque") {
			if err := u.mark(h.Name, f, opaque, whiteoutMode); err != nil {
				return err
			}
		}
	}
	if !f.attrs && !hasAttrs(h) {
		return nil
	}
	fd, err := u.here.fd(f)
	if err != nil {
		return failed("open the folder", h.Name, err)
	}
	clearAttrs(fd)
	f.attrs = true
	return u.attrs(h, fd)
}

// attrNames lists the extended attributes of an open file that may stay.
func attrNames(fd int) (names []string) {
	size, err := unix.Flistxattr(fd, nil)
	if err != nil || size == 0 {
		return nil
	}
	buf := make([]byte, size)
	if size, err = unix.Flistxattr(fd, buf); err != nil {
		return nil
	}
	for name := range strings.SplitSeq(string(buf[:size]), "\x00") {
		if keepAttr(name) {
			names = append(names, name)
		}
	}
	return names
}

func clearAttrs(fd int) {
	for _, name := range attrNames(fd) {
		_ = unix.Fremovexattr(fd, name) // gone already, or never taken here
	}
}

// copyAttrs copies the extended attributes that may stay, where the file system takes them.
func copyAttrs(from, to int) {
	for _, name := range attrNames(from) {
		size, err := unix.Fgetxattr(from, name, nil)
		if err != nil {
			continue
		}
		value := make([]byte, size)
		if size, err = unix.Fgetxattr(from, name, value); err == nil {
			_ = unix.Fsetxattr(to, name, value[:size], 0)
		}
	}
}
