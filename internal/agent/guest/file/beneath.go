//go:build linux

package file

import (
	"strings"

	"golang.org/x/sys/unix"
)

// openBeneath opens a clean relative path below the folder dir. A symbolic link on it is ELOOP.
func openBeneath(dir int, name string, flags int) (int, error) {
	how := &unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC),
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	}
	fd, err := unix.Openat2(dir, name, how)
	if err == unix.ENOSYS { // gVisor, and Linux before 5.6
		return openStepwise(dir, name, flags)
	}
	return fd, err
}

// openStepwise is openBeneath without openat2: it opens one element after the other, each in the previous folder.
func openStepwise(dir int, name string, flags int) (int, error) {
	at := dir
	for {
		element, rest, more := strings.Cut(name, "/")
		if element == ".." {
			return -1, unix.EXDEV
		}
		how := flags
		if more {
			how = unix.O_PATH
		}
		fd, err := unix.Openat(at, element, how|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if at != dir {
			unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		switch kind := st.Mode & unix.S_IFMT; {
		case err != nil:
		case kind == unix.S_IFLNK:
			err = unix.ELOOP
		case more && kind != unix.S_IFDIR:
			err = unix.ENOTDIR
		}
		if err != nil {
			unix.Close(fd)
			return -1, err
		}
		if !more {
			return fd, nil
		}
		at, name = fd, rest
	}
}
