package layer

import (
	"archive/tar"
	"strings"

	"golang.org/x/sys/unix"
)

// attrPrefix begins the names of extended attributes among an archive's records.
const attrPrefix = "SCHILY.xattr."

// keepAttr reports whether an extended attribute may stay. Attributes of overlay mounts could deceive such a
// mount.
func keepAttr(name string) bool {
	return strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay.")
}

// hasAttrs reports whether an entry has extended attributes.
func hasAttrs(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, attrPrefix) {
			return true
		}
	}
	return false
}

// attrs sets an entry's allowed extended attributes that the file system supports.
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

// folderAttrs is attrs for a folder: an earlier entry may have set other attributes, and one attribute makes a
// folder opaque for overlay mounts.
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

// attrNames lists the allowed extended attributes of an open file.
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
		_ = unix.Fremovexattr(fd, name) // gone already, or not supported here
	}
}

// copyAttrs copies the allowed extended attributes that the file system supports.
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
