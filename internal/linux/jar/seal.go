//go:build linux

package jar

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// AgentName is the process name of a jar's first process.
const AgentName = "belljar-agent"

// Sealed is a program in memory that no process can change, not even root inside a jar through /proc/self/exe (CVE-2019-5736). It is
// copied in the background: that takes as long as all other work before the first jar.
type Sealed struct {
	file *os.File
	done chan struct{} // closed when err is known
	err  error
}

// seal starts copying a program into memory. It closes the program after reading it, if it is an [io.Closer].
func seal(program io.Reader) (*Sealed, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(AgentName, flags|unix.MFD_EXEC) // without it, a host may make the file permanently not executable (vm.memfd_noexec)
	if err == unix.EINVAL {                                     // Linux before 6.3
		fd, err = unix.MemfdCreate(AgentName, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	s := &Sealed{file: os.NewFile(uintptr(fd), AgentName), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.err = s.copy(program)
		if c, ok := program.(io.Closer); ok {
			c.Close()
		}
	}()
	return s, nil
}

// copy copies the whole program and seals it, in large steps. The file's own ReadFrom would try two system calls that a memfd refuses,
// and then use small steps.
func (s *Sealed) copy(program io.Reader) error {
	n, err := io.CopyBuffer(struct{ io.Writer }{s.file}, struct{ io.Reader }{program}, make([]byte, 64<<10))
	if err != nil || n == 0 {
		return fmt.Errorf("copy the agent, %d bytes: %w", n, err)
	}
	return forbidWriting(s.file)
}

// forbidWriting seals a file in memory that no process has mapped for writing. F_SEAL_WRITE, which would revoke such mappings, fails with
// EBUSY while the kernel, or any process, holds a page for a moment: under memory pressure, or in a pipe. F_SEAL_FUTURE_WRITE (Linux 5.1)
// still forbids every later write and mapping.
func forbidWriting(f *os.File) error {
	err := f.Chmod(0o555)
	if err == nil {
		seals := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		return fmt.Errorf("seal memfd: %w", err)
	}
	return nil
}

// File waits for the seal and returns the program's file.
func (s *Sealed) File() (*os.File, error) {
	<-s.done
	if s.err != nil {
		return nil, s.err
	}
	return s.file, nil
}

// fd is the file's descriptor, which may not be sealed yet.
func (s *Sealed) fd() int { return int(s.file.Fd()) }

// Close waits for the copy, and frees the memory when no process runs it.
func (s *Sealed) Close() error {
	<-s.done
	return s.file.Close()
}
