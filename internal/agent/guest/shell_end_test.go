//go:build linux

package guest_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
)

// enough is a grace, in milliseconds, in which every shell returns that can return.
const enough = 10_000

// A timeout interrupts a command and all processes that it has started. Jobs of earlier commands continue, and so does the
// shell if it returns to its prompt.
func TestPlainShellTimeout(t *testing.T) {
	modes(t, func(t *testing.T, config func(*testing.T) guest.Config) {
		for name, test := range map[string]struct {
			cmd      string // prints "up" when it may time out
			deaf     bool   // ignores interrupts, and gets little grace
			replaced bool
		}{
			"a program":               {cmd: "exec 2>&1; echo up; sleep 1000; echo not reached"},
			"in a loop":               {cmd: "echo up; while :; do sleep 1000; done"},
			"the shell itself":        {cmd: "echo up; while :; do :; done"},
			"a pipeline":              {cmd: "echo up; sleep 1000 | cat | cat; echo not reached"},
			"in a subshell":           {cmd: "(trap '' INT; echo up; sleep 1000; echo not reached)", deaf: true},
			"reads the terminal":      {cmd: "stty icanon </dev/tty; echo up; cat /dev/tty"},
			"ignores it":              {cmd: "sh -c 'trap \"\" INT TERM; echo up; while :; do sleep 0.1; done'", deaf: true},
			"leaves jobs":             {cmd: "sleep 1000 & (setsid sleep 1000 &) ; echo up; sleep 1000"},
			"stopped":                 {cmd: "echo up; kill -STOP $$"},
			"a shell that ignores it": {cmd: "trap '' INT; echo up; while :; do sleep 0.1; done", deaf: true, replaced: true},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var s *term
				var early, out string
				var exit *wire.Exit
				// The command must be up before its timeout: on a busy machine, retry with a longer one.
				for timeout := int64(700); !strings.Contains(out, "up\n") && timeout < patience.Milliseconds()/2; timeout *= 3 {
					s = begin(t, config(t)).shell()
					early, _ = s.do("sleep 1000 & x=state; echo $!")
					s.want("cd /tmp", "", 0)
					e := s.command(test.cmd)
					e.TimeoutMS = timeout
					if !test.deaf {
						e.GraceMS = enough
					}
					out, _, exit = s.exec(e).follow(nil)
				}
				if exit.Cause != wire.CauseTimeout || exit.Code != 124 || exit.Cwd != "/tmp" || strings.Contains(out, "reached") {
					t.Errorf("%q, %+v", out, exit)
				}
				if exit.Shell.Replaced != test.replaced {
					t.Errorf("%+v", exit.Shell)
				}
				state := map[bool]string{false: "state\n", true: "\n"}[test.replaced]
				s.want("pwd; echo $x", "/tmp\n"+state, 0)
				if err := unix.Kill(number(t, early), 0); err != nil {
					t.Errorf("an earlier job: %v", err)
				}
				for _, p := range sleepers(t, s) {
					if p != strings.TrimSpace(early) {
						t.Errorf("process %s is left", p)
					}
				}
			})
		}
	})
}

// A process of an earlier job continues, even if that job ends while a later command runs that is then ended.
func TestShellKeepsWhatAJobLeaves(t *testing.T) {
	shells(t, func(t *testing.T, s *term, _ string) {
		for _, name := range []string{"go", "pid"} {
			if err := unix.Mkfifo(filepath.Join(s.dir, name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		early, _ := s.do("cd " + s.dir + "; (sleep 1000 & echo $! >pid; read x <go) & cat pid")
		e := s.command("echo >go; wait; echo up; sleep 1000")
		l := s.exec(e)
		l.started()
		l.await("up")
		s.ask(wire.Request{Op: wire.OpSignal, ID: e.ID, Kill: &wire.Kill{End: true, GraceMS: enough}}).reply()
		if _, _, exit := l.follow(nil); exit.Cause != wire.CauseEnded || exit.Shell.Replaced {
			t.Errorf("%+v", exit)
		}
		if err := unix.Kill(number(t, early), 0); err != nil {
			t.Errorf("what the job has left: %v", err)
		}
	})
}

// sleepers returns the sleep processes that have the workspace's environment.
func sleepers(t *testing.T, s *term) (pids []string) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		env, _ := os.ReadFile(name)
		comm, _ := os.ReadFile(filepath.Dir(name) + "/comm")
		if bytes.Contains(env, []byte("HOME="+s.dir+"\x00")) && string(comm) == "sleep\n" {
			pids = append(pids, filepath.Base(filepath.Dir(name)))
		}
	}
	return pids
}

// Ending a command works like a timeout; a signal goes to the foreground job.
func TestShellIsEnded(t *testing.T) {
	shells(t, func(t *testing.T, s *term, _ string) {
		e := s.command("echo up; sleep 1000; echo not reached")
		l := s.exec(e)
		l.started()
		l.await("up")
		if !s.ask(wire.Request{Op: wire.OpSignal, ID: e.ID, Kill: &wire.Kill{End: true, GraceMS: enough}}).reply().Done {
			t.Error("it cannot be ended")
		}
		out, _, exit := l.follow(nil)
		if exit.Cause != wire.CauseEnded || exit.Code != 130 && exit.Code != 143 || strings.Contains(out, "reached") {
			t.Errorf("%q %+v", out, exit)
		}
		s.kept(*exit)

		e = s.command("sh -c 'trap \"echo caught; exit 5\" USR1; echo up; while :; do sleep 0.01; done'")
		l = s.exec(e)
		l.started()
		l.await("up")
		l.json(wire.KindControl, wire.Control{Kill: &wire.Kill{Signal: int(unix.SIGUSR1)}})
		l.await("caught")
		if exit := l.exit(); exit.Code != 5 || exit.Cause != wire.CauseExited {
			t.Errorf("%+v", exit)
		}
		s.ask(wire.Request{Op: wire.OpSignal, ID: e.ID, Kill: &wire.Kill{Signal: 9}}).failure(wire.CodeNotFound)
		s.want("echo fine", "fine\n", 0)
	})
}

// A shell that is interrupted while it forks a job still works.
func TestPlainShellIsInterruptedAtABirth(t *testing.T) {
	s := begin(t, guest.Config{}).shell()
	for i := range 60 {
		s.want(fmt.Sprintf("n=%d", i), "", 0)
		e := s.command("echo up; sleep 1000; echo not reached")
		l := s.exec(e)
		l.started()
		l.await("up")
		s.ask(wire.Request{Op: wire.OpSignal, ID: e.ID, Kill: &wire.Kill{End: true, GraceMS: enough}}).reply()
		out, _, exit := l.follow(nil)
		if exit.Cause != wire.CauseEnded || strings.Contains(out, "reached") {
			t.Fatalf("%q %+v", out, exit)
		}
		s.want("echo $n", fmt.Sprintf("%d\n", i), 0)
	}
}

// A command that ends its shell has its own CPU time, without that of earlier commands and of the orphans that they left.
func TestUsageOfALastCommand(t *testing.T) {
	const burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
	shells(t, func(t *testing.T, s *term, _ string) {
		of := func(cmd string) uint64 {
			t.Helper()
			_, exit := s.do(cmd)
			if exit.Usage.Source == "" {
				t.Errorf("%q: no figure: %+v", cmd, exit)
			}
			return exit.Usage.UserMicros + exit.Usage.SystemMicros
		}
		usual := of(burn)
		of("p=$(setsid sh -c 'echo $$; exec >&-; " + burn + "' &); while kill -0 $p 2>/dev/null; do sleep 0.01; done")
		if got := of("exit"); got > usual/2 {
			t.Errorf("%d µs of earlier commands", got)
		}
		if got := of(burn + "; exit"); got < usual/4 {
			t.Errorf("%d µs, want about %d", got, usual)
		}
	})
}

// Commands run in the order of their requests; one that is ended before its turn never runs.
func TestShellTurns(t *testing.T) {
	s := begin(t, guest.Config{}).shell()
	fifo := filepath.Join(s.dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	first := s.exec(s.command("echo up; read x <" + fifo + "; n=1"))
	first.started()
	first.await("up")
	var line []*line
	for i := range 5 {
		e := s.command(fmt.Sprintf("echo %d; n=$((n*2+%d))", i, i))
		if e.Stdin = i == 2; e.Stdin {
			e.Shell.Cmd = append(e.Shell.Cmd, []byte("; cat")...)
		}
		l := s.exec(e)
		if st := l.started(); st.Pid != 0 {
			t.Errorf("%d runs: %+v", i, st)
		}
		if e.Stdin {
			if l.w.Data([]byte("early\n")) != nil || l.w.EOF() != nil {
				t.Error("stdin is not read")
			}
		}
		line = append(line, l)
	}
	s.ask(wire.Request{Op: wire.OpSignal, ID: "c4", Kill: &wire.Kill{End: true}}).reply()
	if out, _, exit := line[2].follow(nil); exit.Cause != wire.CauseEnded || out != "" || exit.Shell != nil {
		t.Errorf("%q %+v", out, exit)
	}
	// The same id is the same command.
	again := s.command("x")
	again.ID = "c2"
	if st := s.exec(again).started(); !st.Attached {
		t.Errorf("%+v", st)
	}
	w, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.Write([]byte("\n"))
	w.Close()
	first.exit()
	for _, i := range []int{1, 3, 4} {
		if out, _, exit := line[i].follow(nil); out != fmt.Sprintf("%d\n", i) || exit.Code != 0 {
			t.Errorf("%d: %q, %+v", i, out, exit)
		}
	}
	s.want("echo $n", fmt.Sprintln(((1*2+0)*2+1)*4+3*2+4), 0)
	// Another shell does not wait.
	e := s.command("echo $n other")
	e.Shell.Name = "other"
	if out, _, exit := s.exec(e).follow(nil); out != "other\n" || exit.Code != 0 {
		t.Errorf("%q %+v", out, exit)
	}
}

// Output is kept for a host that attaches again, as for every exec.
func TestPlainShellSpool(t *testing.T) {
	s := begin(t, guest.Config{}).shell()
	e := s.command("seq 1 1300000; echo over")
	l := s.exec(e)
	l.started()
	l.next()
	l.conn.Close()
	back := s.ask(wire.Request{Op: wire.OpAttach, ID: e.ID})
	back.started()
	out, _, exit := back.follow(nil)
	if !strings.HasSuffix(out, "1299999\n1300000\nover\n") || !strings.HasPrefix(out, "1\n2\n3\n") || exit.Code != 0 {
		t.Errorf("%d bytes, %+v", len(out), exit)
	}
	if int64(len(out)) != exit.Position {
		t.Errorf("%d bytes of %d", len(out), exit.Position)
	}
	if !s.ask(wire.Request{Op: wire.OpForget, ID: e.ID}).reply().Done {
		t.Error("it is not forgotten")
	}
	s.want("echo fine", "fine\n", 0)
}

// Closing the agent ends shells, commands and their jobs, whatever they are doing.
func TestShellAndTheAgentsEnd(t *testing.T) {
	h := begin(t, guest.Config{})
	s := h.shell()
	s.want("sleep 1000 & (setsid sleep 1000 &)", "", 0)
	l := s.exec(s.command("echo up; trap '' INT TERM; sleep 1000"))
	l.started()
	l.await("up")
	s.exec(s.command("echo waits")).started()
	h.agent.Close()
	if left := sleepers(t, s); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// Whatever commands do to their shell, the next one gets a reply, and state is kept unless its loss was reported.
func TestShellProperty(t *testing.T) {
	s := begin(t, guest.Config{}).shell()
	s.spec.GraceMS = 50
	count := 0
	s.do("n=0")
	rapid.Check(t, func(t *rapid.T) {
		cmd := rapid.SampledFrom([]string{
			"true", "false", "(exit 3)", "exit 3", "kill -9 $$", "kill -INT $$", "kill -TERM $$", "kill -HUP $$", "sleep 0.01 & true", "exec true",
			"exec 1>&-", "exec 0<&- 2>&-", "echo 'unbalanced", "cat <<X", "set -e", "set +e", "trap '' INT", "trap - INT", "sleep 1000", "while :; do :; done",
			"read x </dev/tty", "cd /", "cd /workspace 2>/dev/null || cd $HOME", "return 4", "jobs", "wait", "set -m", "set +m", "(kill -9 $$) & true",
			"head -c 100000 /dev/zero", "printf '\\033c'", "unset -f x", "exec 10>&-", "ulimit -c 0",
		}).Draw(t, "cmd")
		e := s.command(cmd + "\nn=$((n+1))")
		e.Shell.Separate = rapid.Bool().Draw(t, "separate")
		e.TimeoutMS = 60
		if _, _, exit := s.exec(e).follow(nil); exit.Shell == nil {
			t.Fatalf("%q: %+v", cmd, exit)
		}
		count++
		if out, exit := s.do("echo alive; true"); exit.Code == 0 && out != "alive\n" && !strings.HasSuffix(out, "alive\n") {
			t.Fatalf("after %q: %q %+v %+v", cmd, out, exit, exit.Shell)
		} else if exit.Code != 0 && !exit.Shell.Replaced {
			t.Fatalf("after %q: %q %+v %+v", cmd, out, exit, exit.Shell)
		}
	})
	s.do("trap - INT; set +e")
	s.want("echo fine", "fine\n", 0)
	t.Logf("%d commands", count)
}
