package layer

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// Every access uses the descriptor of a folder and one name in it that is not followed, so the kernel never
// resolves a path.

// openFolder opens the folder called name in the folder at. It fails with ENOTDIR or ELOOP on all other files.
func openFolder(at int, name string) (int, error) {
	return openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// openat is openat(2) with O_NOFOLLOW and O_CLOEXEC.
func openat(at int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(at, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// writeAll writes all of b.
func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// setTime sets the modification and access times of a file, link or folder.
func setTime(at int, name string, t unix.Timespec) error {
	return unix.UtimesNanoAt(at, name, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
}

func timespec(t time.Time) unix.Timespec {
	t = within(t)
	return unix.Timespec{Sec: t.Unix(), Nsec: int64(t.Nanosecond())}
}

// entries reads the names in an open folder in blocks, so that memory does not depend on their number.
type entries struct {
	fd   int
	buf  []byte
	rest []byte
}

// list begins at the beginning of the folder.
func list(fd int, buf []byte) (*entries, error) {
	_, err := unix.Seek(fd, 0, 0)
	return &entries{fd: fd, buf: buf}, err
}

// next returns the next name, "" after the last one, and its type as in unix.DT_*.
func (e *entries) next() (name string, kind byte, err error) {
	const head = 19 // inode, offset, length, type
	for {
		if len(e.rest) < head {
			n, err := unix.Getdents(e.fd, e.buf)
			if err != nil || n == 0 {
				return "", 0, err
			}
			e.rest = e.buf[:n]
		}
		record := e.rest[:binary.NativeEndian.Uint16(e.rest[16:])]
		e.rest = e.rest[len(record):]
		raw := record[head:]
		for i, b := range raw {
			if b == 0 {
				raw = raw[:i]
				break
			}
		}
		if s := string(raw); s != "." && s != ".." {
			kind = record[18]
			if kind == unix.DT_UNKNOWN {
				kind, err = kindOf(e.fd, s)
			}
			return s, kind, err
		}
	}
}

// kindOf returns a name's type, for file systems that do not return it with the name.
func kindOf(at int, name string) (byte, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0, err
	}
	return byte(st.Mode & unix.S_IFMT >> 12), nil
}
