//go:build linux

package guest

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/pty"
	"github.com/belljar/belljar/internal/agent/wire"
)

// streams are a shell command's stdin, stdout and stderr. A running shell cannot receive descriptors, so it opens them by name: a
// terminal, or named pipes, which are then unlinked.
type streams struct {
	redirect string    // the shell's redirections
	paths    [3]string // the paths that it opens, by descriptor
	holds    []int     // our descriptors of the shell's ends, which keep them open until the shell has its own
	names    []string
	ours     []*os.File
}

// wide is the size of a command's terminal: programs wrap or cut lines to it.
func wide() wire.Size { return wire.Size{Cols: 200, Rows: 50} }

// open opens a command's streams, with the rights of its user.
func (s *streams) open(e *exec) error {
	s.paths[0] = "/dev/null"
	if e.spec.Stdin {
		file, err := s.pipe(0, unix.O_WRONLY)
		if err != nil {
			return err
		}
		e.mu.Lock()
		e.inlet.file = file
		e.mu.Unlock()
	}
	s.redirect = "<" + s.paths[0]
	if !e.spec.Shell.Separate {
		return s.terminal(e)
	}
	for _, stream := range []wire.Stream{wire.Stdout, wire.Stderr} {
		file, err := s.pipe(int(stream), unix.O_RDONLY)
		if err != nil {
			return err
		}
		if err := s.outlet(e, stream, file); err != nil {
			return err
		}
		s.redirect += " " + strconv.Itoa(int(stream)) + ">" + s.paths[stream]
	}
	return nil
}

func (s *streams) outlet(e *exec, stream wire.Stream, file *os.File) error {
	o, err := newOutlet(e, stream, file)
	if err == nil {
		e.outlets = append(e.outlets, o)
	}
	return err
}

// terminal makes the terminal for both of a command's output streams. It changes no byte and echoes nothing.
func (s *streams) terminal(e *exec) error {
	master, slave, err := pty.Open(wide())
	if err != nil {
		return err
	}
	s.holds = append(s.holds, slave)
	file, err := s.file(master)
	if err != nil {
		return err
	}
	if err := e.a.waits.Set(master); err != nil {
		return err
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return fmt.Errorf("name the terminal: %w", err)
	}
	name := "/dev/pts/" + strconv.Itoa(n)
	var ours, there unix.Stat_t
	if unix.Fstat(slave, &ours) != nil || unix.Stat(name, &there) != nil || ours.Dev != there.Dev || ours.Ino != there.Ino {
		return fmt.Errorf("%s is not the terminal of that number: %w", name, unix.ENOTTY)
	}
	s.redirect += " >" + name + " 2>&1"
	return s.outlet(e, wire.Stdout, file)
}

// pipe makes a named pipe for a descriptor of the shell, and returns our end. Until the shell has opened its own, we hold both.
func (s *streams) pipe(shell, mode int) (*os.File, error) {
	name, err := s.name()
	if err != nil {
		return nil, err
	}
	s.paths[shell] = name
	both, err := s.end(name, unix.O_RDWR)
	if err != nil {
		return nil, err
	}
	s.holds = append(s.holds, both)
	ours, err := s.end(name, mode)
	if err != nil {
		return nil, err
	}
	return s.file(ours)
}

// name makes a named pipe in a folder that the user can write to.
func (s *streams) name() (name string, err error) {
	var random [12]byte
	if _, err := unix.Getrandom(random[:], 0); err != nil {
		return "", err
	}
	for _, dir := range []string{"/tmp", "/dev/shm", "/run"} {
		name = filepath.Join(dir, ".belljar-"+hex.EncodeToString(random[:]))
		if err = unix.Mkfifo(name, 0o600); err == nil {
			s.names = append(s.names, name)
			return name, nil
		}
	}
	return "", fmt.Errorf("make a named pipe: %w", err)
}

// end opens an end of a named pipe, and fails if another file has replaced it.
func (s *streams) end(name string, mode int) (int, error) {
	fd, err := unix.Open(name, mode|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NOCTTY, 0)
	if err != nil {
		return 0, fmt.Errorf("open a named pipe: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		unix.Close(fd)
		return 0, fmt.Errorf("open a named pipe: %w", unix.ESPIPE)
	}
	return fd, nil
}

// file makes a descriptor a file that uses the poller.
func (s *streams) file(fd int) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "stream")
	s.ours = append(s.ours, f)
	return f, nil
}

// release closes our descriptors of the shell's ends, and removes the names.
func (s *streams) release() {
	for _, fd := range s.holds {
		unix.Close(fd)
	}
	s.holds = nil
	for _, name := range s.names {
		_ = unix.Unlink(name) // its owner may have removed it already
	}
	s.names = nil
}

// close closes everything.
func (s *streams) close() {
	s.release()
	for _, f := range s.ours {
		f.Close()
	}
}
