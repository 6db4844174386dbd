//go:build linux

package native

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/runtime"
)

// watch begins to wait for the agent's end. It owns pidfd if there is no error, which the runtime's poller waits on: no thread, no polling.
func (s *sandbox) watch(pid, pidfd int, child bool) error {
	if err := unix.SetNonblock(pidfd, true); err != nil {
		return fmt.Errorf("pidfd: %w", err)
	}
	s.gone, s.pid = make(chan struct{}), pid
	s.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
	conn, err := s.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	go func() {
		var status unix.WaitStatus
		err := conn.Read(func(fd uintptr) bool { return ended(pid, int(fd), &status, child) })
		if err != nil && !errors.Is(err, os.ErrClosed) {
			s.rt.log.Error("watch sandbox", "sandbox", s.ID(), "error", err)
		}
		s.last = s.usage()
		s.exit = s.explainExit(status, child)
		close(s.gone)
	}()
	return nil
}

// ended reports whether the agent has ended, and reaps it if it is a child of ours: only then is its pid free.
func ended(pid, pidfd int, status *unix.WaitStatus, child bool) bool {
	if child {
		for {
			got, err := unix.Wait4(pid, status, unix.WNOHANG, nil)
			if err == unix.EINTR {
				continue
			}
			return got == pid || err != nil
		}
	}
	poll := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n == 1
}

// explainExit says why the agent ended. An attached sandbox is not our child, so its status is not ours to see.
func (s *sandbox) explainExit(status unix.WaitStatus, child bool) runtime.Exit {
	s.mu.Lock()
	destroyed := s.destroyed
	s.mu.Unlock()
	switch {
	case destroyed:
		return runtime.Exit{Reason: runtime.ExitDestroyed}
	case !child:
		return runtime.Exit{Reason: runtime.ExitAgent, Detail: "status unknown: the sandbox outlived its daemon"}
	case status.Exited():
		return runtime.Exit{Reason: runtime.ExitAgent, Detail: fmt.Sprintf("agent ended with status %d", status.ExitStatus())}
	case status.Signal() == unix.SIGKILL && s.last.OOMKills != nil && *s.last.OOMKills > 0:
		return runtime.Exit{Reason: runtime.ExitOOM, Detail: "the agent was killed for want of memory"}
	}
	return runtime.Exit{Reason: runtime.ExitKilled, Detail: fmt.Sprintf("agent killed by signal %d", status.Signal())}
}
