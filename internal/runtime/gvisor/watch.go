//go:build linux

package gvisor

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/roster"
	"github.com/belljar/belljar/internal/runtime"
)

// watch begins to wait for the keep's end. It owns pidfd if there is no error, which the runtime's poller waits on: no
// thread, no polling.
func (s *sandbox) watch(pid, pidfd int, child bool) error {
	if err := unix.SetNonblock(pidfd, true); err != nil {
		return fmt.Errorf("pidfd: %w", err)
	}
	s.gone = make(chan struct{})
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

// ended reports whether the keep has ended, and reaps it if it is a child of ours: only then is its pid free.
func ended(pid, pidfd int, status *unix.WaitStatus, child bool) bool {
	if !child {
		return roster.Ended(pidfd)
	}
	for {
		got, err := unix.Wait4(pid, status, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		return got == pid || err != nil
	}
}

// explainExit says why a sandbox ended: in the keep's words, or by the lack of them.
func (s *sandbox) explainExit(status unix.WaitStatus, child bool) runtime.Exit {
	s.mu.Lock()
	id, destroyed := s.id, s.destroyed
	s.mu.Unlock()
	if destroyed {
		return runtime.Exit{Reason: runtime.ExitDestroyed}
	}
	last, told := s.rt.readLast(id)
	// An agent that ends says so by a status; whatever else it is, and the host has killed something, is that.
	orderly := told && last.Signal == 0 && last.Code == 0
	switch {
	case !orderly && oomKilled(s.last):
		return runtime.Exit{Reason: runtime.ExitOOM, Detail: "gVisor was killed for want of memory"}
	case told && last.Signal != 0:
		return runtime.Exit{Reason: runtime.ExitKilled, Detail: said(fmt.Sprintf("gVisor's kernel killed by signal %d", last.Signal), last.Detail)}
	case told:
		return runtime.Exit{Reason: runtime.ExitAgent, Detail: said(fmt.Sprintf("ended with status %d", last.Code), last.Detail)}
	case child && status.Exited():
		return runtime.Exit{Reason: runtime.ExitAgent, Detail: fmt.Sprintf("its keep ended with status %d", status.ExitStatus())}
	}
	return runtime.Exit{Reason: runtime.ExitKilled, Detail: "its keep was killed"}
}

// said adds the last words of a program to what became of it, if there were any.
func said(what, words string) string {
	if words = strings.TrimSpace(words); words == "" {
		return what
	}
	return what + ": " + words
}

func oomKilled(u runtime.Usage) bool { return u.OOMKills != nil && *u.OOMKills > 0 }
