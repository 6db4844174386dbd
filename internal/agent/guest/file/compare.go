//go:build linux

package file

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/wire"
)

// mostCompared limits how much is read to compare a file.
const mostCompared = 1 << 30

func changed(name string) error {
	return fault.New(wire.CodeChanged, "%s is not as it was", name)
}

// compare fails unless the file that is to be replaced matches one of those in the request. It runs as the user.
func (f *fileOp) compare(t *target) error {
	if len(f.req.IfMatch) == 0 {
		return nil
	}
	fd, err := unix.Openat(int(t.dir.Fd()), t.base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ELOOP):
		return changed(f.name)
	case err != nil:
		return &os.PathError{Op: "open", Path: f.name, Err: err}
	}
	file := os.NewFile(uintptr(fd), t.base)
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return changed(f.name)
	case slices.Contains(f.req.IfMatch, "*"):
		return nil
	case info.Size() > mostCompared:
		return fault.New(wire.CodeTooLarge, "%s is too large to be compared", f.name)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(file, mostCompared)); err != nil {
		return err
	}
	if !slices.Contains(f.req.IfMatch, hex.EncodeToString(sum.Sum(nil))) {
		return changed(f.name)
	}
	return nil
}
