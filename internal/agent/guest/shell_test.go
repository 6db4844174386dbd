//go:build linux

package guest_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
)

// term is a shell of a host.
type term struct {
	*host
	n    int
	spec wire.Exec // of every command
}

func (h *host) shell() *term {
	return &term{host: h, spec: wire.Exec{
		Env: []string{"PATH=/usr/bin:/bin", "TERM=dumb", "HOME=" + h.dir}, UID: os.Getuid(), GID: os.Getgid(), GraceMS: 200,
	}}
}

// command is an exec for the shell.
func (s *term) command(cmd string) wire.Exec {
	s.n++
	e := s.spec
	e.ID, e.Shell = fmt.Sprintf("c%d", s.n), &wire.ShellRun{Cmd: []byte(cmd)}
	return e
}

// do runs a command to its end.
func (s *term) do(cmd string) (string, wire.Exit) {
	s.Helper()
	out, errs, exit := s.exec(s.command(cmd)).follow(nil)
	return out + errs, *exit
}

func TestShellSmoke(t *testing.T) {
	s := begin(t, guest.Config{}).shell()
	for _, cmd := range []string{"echo hi", "cd /tmp; X=1", "pwd; echo $X", "sleep 100 &", "jobs", "kill %1; wait", "exit 3", "echo back $X", "echo >/dev/tty tty"} {
		out, exit := s.do(cmd)
		t.Logf("%q -> %q %+v %+v", cmd, out, exit, exit.Shell)
	}
	s.spec.TimeoutMS = 100
	out, exit := s.do("sleep 100 & sleep 100; echo no")
	t.Logf("-> %q %+v %+v", out, exit, exit.Shell)
	out, exit = s.do("trap '' INT; while :; do sleep 1; done")
	t.Logf("-> %q %+v %+v", out, exit, exit.Shell)
	e := s.command("cat; echo err >&2")
	e.Shell.Separate, e.Stdin = true, true
	l := s.exec(e)
	l.started()
	l.w.Data([]byte("stdin"))
	l.w.EOF()
	o, er, ex := l.follow(nil)
	t.Logf("-> %q %q %+v %+v", o, er, ex, ex.Shell)
}
