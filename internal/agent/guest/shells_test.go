//go:build linux

package guest_test

import (
	"testing"
	"time"

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
	process := watch(t, pid)
	queued := named("echo never")
	second := s.exec(queued)
	second.started()
	s.ask(wire.Request{Op: wire.OpSignal, ID: queued.ID, Kill: &wire.Kill{End: true}}).reply()
	second.exit()
	s.want(": >"+fifo, "", 0) // in another shell
	first.exit()
	if !process(patience) {
		t.Error("the idle shell lives on")
	}
}

// watch returns a function that waits for the end of a process.
func watch(t *testing.T, pid int) (ends func(within time.Duration) bool) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return func(within time.Duration) bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(within.Milliseconds()))
		return n == 1
	}
}

// fifos makes named pipes in the host's directory.
func (s *term) fifos(names ...string) (paths []string) {
	s.Helper()
	for _, name := range names {
		paths = append(paths, s.dir+"/"+name)
		if err := unix.Mkfifo(s.dir+"/"+name, 0o600); err != nil {
			s.Fatal(err)
		}
	}
	return paths
}

// An idle shell ends when the processes that its commands left have ended.
func TestIdleShellWaitsForItsProcesses(t *testing.T) {
	s := begin(t, guest.Config{}).shell()
	begun := func(name, cmd string) int {
		e := s.command(cmd)
		e.Shell.Name, e.Shell.IdleMS = name, 1
		out, _, exit := s.exec(e).follow(nil)
		if exit.Code != 0 {
			t.Fatalf("%+v", exit)
		}
		return number(t, out)
	}
	pipes := s.fifos("in", "out")
	works := watch(t, begun("works", "{ read x; echo $x >"+pipes[1]+"; } <>"+pipes[0]+" & echo $$"))
	if !watch(t, begun("rests", "echo $$"))(patience) { // it becomes idle later
		t.Error("an idle shell lives on")
	}
	s.want("echo 5 >"+pipes[0]+"; cat "+pipes[1], "5\n", 0)
	if !works(patience) {
		t.Error("the shell lives on after its process")
	}
}

// The end of a shell ends what its dead processes have left.
func TestEndOfADeadShell(t *testing.T) {
	s := begin(t, guest.Config{}).shell()
	pipe := s.fifos("pipe")[0]
	left := func() func(time.Duration) bool {
		e := s.command("{ read x; } <>" + pipe + " & echo $!; exit")
		e.Shell.Name = "dies"
		out, _, exit := s.exec(e).follow(nil)
		if !exit.Shell.Replaced {
			t.Fatalf("%+v", exit)
		}
		return watch(t, number(t, out))
	}
	first, second := left(), left()
	if first(0) || second(0) {
		t.Fatal("the processes have ended")
	}
	s.ask(wire.Request{Op: wire.OpEndShell, ID: "dies"}).reply()
	if !first(0) || !second(0) {
		t.Error("processes of an ended shell live on")
	}
}
