//go:build linux

package jar

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// DialSocket connects to a socket in the jar's folder. An error is [Errors.Gone] if no process listens.
func (j *Jar) DialSocket(ctx context.Context, socket string) (net.Conn, error) {
	if j.Ended() {
		return nil, j.rack.o.Errors.Gone
	}
	name, done, err := socketName(filepath.Join(j.Folder(), socket))
	if err == nil {
		defer done()
		var d net.Dialer
		var conn net.Conn
		if conn, err = d.DialContext(ctx, "unix", name); err == nil {
			return conn, nil
		}
	}
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		err = fmt.Errorf("%w: %w", j.rack.o.Errors.Gone, err)
	}
	return nil, err
}

// Listen makes a socket in the jar's folder, on which its first process accepts. The caller closes it.
func (b *Birth) Listen(socket string) (*os.File, error) {
	f, err := listen(filepath.Join(b.Jar.Folder(), socket))
	if err != nil {
		return nil, b.Jar.rack.o.Errors.Step(StepState, err, "")
	}
	return f, nil
}

func listen(path string) (*os.File, error) {
	name, done, err := socketName(path)
	if err != nil {
		return nil, err
	}
	defer done()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), filepath.Base(path))
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		f.Close()
		return nil, fmt.Errorf("bind %s: %w", path, err)
	}
	if err := unix.Listen(fd, 1024); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// socketName returns a name for the socket at path that fits into an address: 107 bytes (unix(7)). A longer path goes
// through its folder's descriptor, which done closes.
func socketName(path string) (name string, done func(), err error) {
	const longest = 107
	if len(path) <= longest {
		return path, func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	return "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(path), func() { dir.Close() }, nil
}
