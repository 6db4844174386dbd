//go:build linux

package roster

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
)

// ErrEnded means that a process has ended.
var ErrEnded = errors.New("the process has ended")

// Process identifies a process permanently, as part of a record. A pid alone is not enough: it is reused within a boot.
type Process struct {
	Pid       int    `json:"pid"`
	StartTime uint64 `json:"start_time"` // clock ticks after boot, proc_pid_stat(5) field 22
	BootID    string `json:"boot_id"`
}

// Open returns a non-blocking pidfd of the process, or [ErrEnded].
func (p Process) Open() (int, error) {
	if p.Pid <= 0 || p.BootID != BootID() {
		return -1, ErrEnded
	}
	pidfd, err := unix.PidfdOpen(p.Pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return -1, ErrEnded
	}
	if stat, err := forkexec.ReadStat(p.Pid); err != nil || stat.StartTime != p.StartTime {
		unix.Close(pidfd)
		return -1, ErrEnded
	}
	return pidfd, nil
}

// BootID returns the id of this boot of the machine.
func BootID() string {
	raw, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(raw))
}

// Ended reports whether the process of a pidfd has ended, reaped or not.
func Ended(pidfd int) bool {
	poll := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n == 1
}
