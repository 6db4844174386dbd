package daemon

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// becomeKeep executes the agent's program as a keep, with this process's descriptors. It returns only on failure.
func becomeKeep(agent io.Reader, config string) error {
	const name = "belljar-agent"
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("memfd: %w", err)
	}
	program := os.NewFile(uintptr(fd), name)
	defer program.Close()
	if _, err := io.Copy(program, agent); err != nil {
		return fmt.Errorf("copy the agent: %w", err)
	}
	if err := program.Chmod(0o555); err != nil {
		return err
	}
	err = unix.Exec(fmt.Sprintf("/proc/self/fd/%d", fd), []string{name, "keep", config}, os.Environ())
	return fmt.Errorf("execute the agent: %w", err)
}
