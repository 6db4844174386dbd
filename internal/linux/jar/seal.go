//go:build linux

package jar

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// AgentName is what the first process of a jar is called among processes.
const AgentName = "belljar-agent"

// seal puts a program in memory that no process can change, not even root inside a jar through /proc/self/exe
// (CVE-2019-5736).
func seal(program io.Reader) (*os.File, error) {
	fd, err := unix.MemfdCreate(AgentName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	f := os.NewFile(uintptr(fd), AgentName)
	if n, err := copyProgram(f, program); err != nil || n == 0 {
		f.Close()
		return nil, fmt.Errorf("copy the agent, %d bytes: %w", n, err)
	}
	err = f.Chmod(0o555)
	if err == nil {
		seals := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("seal memfd: %w", err)
	}
	return f, nil
}

// copyProgram copies a program in large steps. The file's own way to copy tries two system calls that a memfd refuses, and
// goes in small ones.
func copyProgram(to io.Writer, program io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{program}, make([]byte, 256<<10))
}
