//go:build linux

package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/runtime"
)

// files are the descriptors that a keep is given, and our ends of them.
type files struct {
	lock        *os.File
	streams     *os.File // listens
	orders      *os.File // listens
	last        *os.File
	readyOut    *os.File // ours
	readyIn     *os.File
	lifelineOut *os.File
	lifelineIn  *os.File // ours
}

// prepare makes a sandbox's folder, takes its lock and listens on its sockets.
func (r *Runtime) prepare(id string) (*files, error) {
	f := &files{}
	var err error
	if f.lock, err = r.roster.Claim(id); err != nil {
		return nil, &runtime.StepError{Step: stepState, Err: fmt.Errorf("sandbox %w", err)}
	}
	if err = f.open(r.roster.Folder(id)); err != nil {
		f.close()
		r.roster.Forget(id)
		f.lock.Close()
		return nil, &runtime.StepError{Step: stepState, Err: err}
	}
	return f, nil
}

func (f *files) open(dir string) (err error) {
	if f.streams, err = listenUnix(filepath.Join(dir, streamSocket)); err != nil {
		return err
	}
	if f.orders, err = listenUnix(filepath.Join(dir, orderSocket)); err != nil {
		return err
	}
	if f.last, err = os.OpenFile(filepath.Join(dir, lastName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	f.readyOut, f.readyIn, err = os.Pipe()
	return err
}

func (f *files) makeLifeline() (err error) {
	f.lifelineOut, f.lifelineIn, err = os.Pipe()
	return err
}

// takeLifeline is our end of the lifeline, for the caller to close.
func (f *files) takeLifeline() *os.File {
	line := f.lifelineIn
	f.lifelineIn = nil
	return line
}

// passed closes what the keep has now: what only it has ends with it.
func (f *files) passed() {
	for _, file := range []**os.File{&f.streams, &f.orders, &f.last, &f.readyIn, &f.lifelineOut} {
		if *file != nil {
			(*file).Close()
			*file = nil
		}
	}
}

// close closes all but the lock.
func (f *files) close() {
	f.passed()
	for _, file := range []*os.File{f.readyOut, f.lifelineIn} {
		if file != nil {
			file.Close()
		}
	}
}

// awaitReady returns when the keep says that its agent can be dialled, or why it never will.
func (f *files) awaitReady(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { f.readyOut.SetDeadline(time.Unix(1, 0)) })()
	text, err := io.ReadAll(f.readyOut)
	if err != nil {
		return err
	}
	var report keepReport
	if len(text) == 0 || json.Unmarshal(text, &report) != nil {
		return fmt.Errorf("the keep has ended without a word: %w", io.ErrUnexpectedEOF)
	}
	if report.Error != "" {
		return errors.New(report.Error)
	}
	return nil
}

// Names in a sandbox's folder.
const (
	streamSocket = "agent.sock"
	orderSocket  = "order.sock"
	lastName     = "last.json"
)

// readLast is a keep's last words; false if it had none.
func (r *Runtime) readLast(id string) (keepLast, bool) {
	var l keepLast
	text, err := os.ReadFile(filepath.Join(r.roster.Folder(id), lastName))
	if err != nil || json.Unmarshal(text, &l) != nil {
		return keepLast{}, false
	}
	return l, true
}

// listenUnix makes a socket that the keep will accept on.
func listenUnix(path string) (*os.File, error) {
	name, done, err := socketName(path)
	if err != nil {
		return nil, err
	}
	defer done()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "socket")
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

func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	name, done, err := socketName(path)
	if err != nil {
		return nil, err
	}
	defer done()
	var d net.Dialer
	return d.DialContext(ctx, "unix", name)
}

// socketName is a name for the socket at path that fits into an address: 107 bytes (unix(7)). A longer one goes through
// its folder's descriptor, which done closes.
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
