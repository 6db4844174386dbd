//go:build linux

package guest_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
)

// A shell is idle after its last command, also if that command was ended before its turn came.
func TestShellIsIdleAfterAQueuedCommand(t *testing.T) {
	s := begin(t, guest.Config{}).shell()
	named := func(cmd string) wire.Exec {
		e := s.command(cmd)
		e.Shell.Name, e.Shell.IdleMS = "idle", 1
		return e
	}
	fifo := s.dir + "/fifo"
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	first := s.exec(named("echo $$; read x <" + fifo))
	pid := number(t, first.await("\n"))
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(process)
	queued := named("echo never")
	second := s.exec(queued)
	second.started()
	s.ask(wire.Request{Op: wire.OpSignal, ID: queued.ID, Kill: &wire.Kill{End: true}}).reply()
	second.exit()
	s.want(": >"+fifo, "", 0) // in another shell
	first.exit()
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, int(patience.Milliseconds())); n != 1 {
		t.Errorf("the idle shell lives on: %v", err)
	}
}
