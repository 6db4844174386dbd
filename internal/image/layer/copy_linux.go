package layer

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// cannotLink reports whether a hard link failed although a copy may work: the file system has no links, is another one, or the file has the highest
// number of names.
func cannotLink(err error) bool {
	switch err {
	case unix.EMLINK, unix.EXDEV, unix.EPERM, unix.EOPNOTSUPP, unix.ENOSYS:
		return true
	}
	return false
}

// copyAt copies a file or symbolic link, with its mode, time and attributes, and returns its size in bytes. The new name must not exist.
func copyAt(ctx context.Context, from, to int, name, as string) (size int64, err error) {
	var st unix.Stat_t
	if err := unix.Fstatat(from, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target := make([]byte, maxPath+1)
		var n int
		if n, err = unix.Readlinkat(from, name, target); err == nil {
			err = unix.Symlinkat(string(target[:n]), to, as)
		}
	case unix.S_IFREG:
		err = copyFile(ctx, from, to, name, as, st.Mode&0o777)
	default:
		err = unix.EINVAL
	}
	if err != nil {
		return 0, err
	}
	return st.Size, setTime(to, as, st.Mtim)
}

// chunk is how much is copied between checks of the context.
const chunk = 32 << 20

func copyFile(ctx context.Context, from, to int, name, as string, mode uint32) (err error) {
	in, err := openat(from, name, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	source := os.NewFile(uintptr(in), name)
	defer source.Close()
	out, err := openat(to, as, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	target := os.NewFile(uintptr(out), as)
	defer func() { err = errors.Join(err, target.Close()) }()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, err := io.CopyN(target, source, chunk) // the kernel copies, if it can
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	copyAttrs(in, out)
	return unix.Fchmod(out, mode)
}
