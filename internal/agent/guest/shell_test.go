//go:build linux

package guest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
)

// term is a host's shell.
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

// posix returns a host's shell without bash.
func (h *host) posix(t *testing.T) *term {
	s := h.shell()
	bin := t.TempDir()
	for _, name := range []string{"sh", "cat", "sleep", "ls", "seq", "head", "wc", "tr", "true", "false", "kill", "env", "setsid", "stty", "rm", "mkdir", "touch", "nohup"} {
		for _, dir := range []string{"/bin/", "/usr/bin/"} {
			if _, err := os.Stat(dir + name); err == nil {
				if err := os.Symlink(dir+name, filepath.Join(bin, name)); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
	}
	s.spec.Env[0] = "PATH=" + bin
	return s
}

// command returns an exec for the shell.
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
	if exit.Shell == nil {
		s.Fatalf("%q: %+v", cmd, exit)
	}
	return out + errs, *exit
}

// want runs a command and checks its output and status.
func (s *term) want(cmd, out string, code int) wire.Exit {
	s.Helper()
	got, exit := s.do(cmd)
	if got != out || exit.Code != code || exit.Cause != wire.CauseExited {
		s.Errorf("%.200q: printed %.300q, exit %+v; want %.300q, %d", cmd, got, exit, out, code)
	}
	return exit
}

// kept and replaced check the effect of the last command on the shell.
func (s *term) kept(exit wire.Exit) {
	s.Helper()
	if exit.Shell.Replaced {
		s.Errorf("the shell was replaced: %+v", exit)
	}
}

func (s *term) replaced(exit wire.Exit) {
	s.Helper()
	if !exit.Shell.Replaced {
		s.Errorf("the shell was kept: %+v", exit)
	}
	s.want("echo again", "again\n", 0)
}

// shells runs a test with each supported shell.
func shells(t *testing.T, run func(*testing.T, *term, string)) {
	t.Run("bash", func(t *testing.T) { run(t, begin(t, guest.Config{}).shell(), "bash") })
	t.Run("sh", func(t *testing.T) { run(t, begin(t, guest.Config{}).posix(t), "sh") })
}

// A shell keeps its state: every construct that changes it has a lasting effect.
func TestShellKeepsItsState(t *testing.T) {
	shells(t, func(t *testing.T, s *term, program string) {
		if exit := s.want("cd /tmp; export FOO=bar; baz=1", "", 0); exit.Cwd != "/tmp" || exit.Shell.Program != program {
			t.Errorf("%+v %+v", exit, exit.Shell)
		}
		s.want("pwd; echo $FOO$baz; sh -c 'echo $FOO$baz'", "/tmp\nbar1\nbar\n", 0)
		s.want("f() { echo \"f $1\"; }; alias hi='echo hello'", "", 0)
		s.want("f x; hi", "f x\nhello\n", 0)
		s.want("umask 077; set -- a b c", "", 0)
		s.want("umask; echo $#", "0077\n3\n", 0)
		s.want("exec 7>"+s.dir+"/seven", "", 0)
		s.want("echo kept >&7; exec 7>&-; cat "+s.dir+"/seven", "kept\n", 0)
		s.want("set -u", "", 0)
		if out, exit := s.do("echo $nothing_of_that_name"); exit.Code == 0 || !strings.Contains(out, "nothing_of_that_name") {
			t.Errorf("%q %+v", out, exit)
		}
		s.kept(s.want("set +u; echo ${nothing:-fine}", "fine\n", 0))
	})
}

func TestShellStatus(t *testing.T) {
	shells(t, func(t *testing.T, s *term, _ string) {
		s.want("false", "", 1)
		s.want("true", "", 0)
		s.want("(exit 7)", "", 7)
		s.want("return 5", "", 5)
		if _, exit := s.do("sh -c 'kill -9 $$'"); exit.Code != 137 || exit.Signal != 0 {
			t.Errorf("%+v", exit)
		}
		s.want("echo a; false; echo b", "a\nb\n", 0)
		s.want("# nothing but a remark", "", 0)
		if out, exit := s.do("no-such-program-anywhere"); exit.Code != 127 || !strings.Contains(out, "not found") {
			t.Errorf("%q %+v", out, exit)
		}
		for _, broken := range []string{`echo "abc`, "if true; then", "echo )", "case x in", "'", "${x", "for"} {
			out, exit := s.do(broken)
			if exit.Code != 2 && exit.Code != 1 || out == "" || exit.Shell.Replaced {
				t.Errorf("%q: %q, %+v", broken, out, exit)
			}
		}
		if out, exit := s.do("cat <<END\nhi"); exit.Code != 0 || !strings.HasSuffix(strings.TrimSuffix(out, "\n"), "hi") {
			t.Errorf("%q %+v", out, exit)
		}
		s.kept(s.want("echo fine", "fine\n", 0))
	})
}

// In bash, traps, set -x and set -v see the commands only, and a command sees the status of the last one.
func TestShellTraps(t *testing.T) {
	s := begin(t, guest.Config{}).shell()
	s.want("trap 'echo ERR' ERR; (exit 7)", "ERR\n", 7)
	completion := s.command("(exit 9)")
	completion.Shell.Complete = true
	s.exec(completion).follow(nil)
	s.want("echo $?; false", "7\nERR\n", 1)
	s.want("trap - ERR; return() { :; }; (exit 8)", "", 8)
	s.want("echo $?; unset -f return; set -x", "8\n", 0)
	if out, exit := s.do("false"); strings.Count(out, "\n") != 1 || !strings.HasSuffix(out, "+ false\n") || exit.Code != 1 {
		t.Errorf("%q, %+v", out, exit)
	}
	if out, _ := s.do("echo $?"); strings.Count(out, "\n") != 2 || !strings.HasSuffix(out, "\n1\n") {
		t.Errorf("%q", out)
	}
	s.do("set +x")
	s.want("trap 'echo D' DEBUG; echo a", "D\na\n", 0) // one for DEBUG ends with its command: docs/contexts.md
	s.want("echo b", "b\n", 0)
	s.want("set -v; true", "", 0)
	s.want("echo $?\nfalse", "echo $?\n0\nfalse\n", 1)
	s.want("echo ${-//[!v]/} $?; set +v", "echo ${-//[!v]/} $?; set +v\nv 1\n", 0)
	s.want("echo ${-//[!v]/}.", ".\n", 0)
	s.want("trap 'echo end; echo of it >&2' EXIT", "", 0)
	s.replaced(s.want("echo the; exit 3", "the\nend\nof it\n", 3))
	s.want("echo $?; set -e; trap 'echo $?' EXIT", "0\n", 0)
	s.replaced(s.want("(exit 5)", "5\n", 5))
}

func TestShellScripts(t *testing.T) {
	shells(t, func(t *testing.T, s *term, _ string) {
		s.want("echo a\necho b\n\n# c\nfor i in 1 2\ndo\n echo $i\ndone", "a\nb\n1\n2\n", 0)
		s.want("cat <<'END'\n$x `y` \"\\\nEND\ncat <<END\n$((1+1))\nEND", "$x `y` \"\\\n2\n", 0)
		s.want("echo one\r\necho two\r\n", "one\ntwo\n", 0)
		s.want("x='it'\"'\"'s'; echo \"$x\" '\"' \\'", "it's \" '\n", 0)
		s.want("echo 'ünïcödé €' $'\\x41' 2>&1 | cat >/dev/null; printf %s no-newline", "no-newline", 0)
		s.want("echo to stderr >&2", "to stderr\n", 0)
		for _, n := range []int{3500, 4096, 8192, 100_000, 1<<20 - 100} {
			s.want("x="+strings.Repeat("y", n)+"; echo ${#x}", strconv.Itoa(n)+"\n", 0)
		}
		s.kept(s.want("echo "+strings.Repeat("'a' ", 1000)+"| wc -c", "2000\n", 0))
	})
}

// Background jobs continue, later commands can list them, and their later output is dropped.
func TestShellJobs(t *testing.T) {
	shells(t, func(t *testing.T, s *term, _ string) {
		ready := filepath.Join(s.dir, "ready")
		if err := unix.Mkfifo(ready, 0o600); err != nil {
			t.Fatal(err)
		}
		// The write waits for the job to open the file: until then the job ignores SIGTERM as the shell does.
		out, _ := s.do("sleep 1000 <" + ready + " & echo $!; : >" + ready)
		pid := number(t, out)
		if out, _ := s.do("jobs"); !strings.Contains(out, "Running") || !strings.Contains(out, "sleep 1000") {
			t.Errorf("jobs: %q", out)
		}
		s.want("kill %1; wait %1 2>/dev/null; echo $?", "143\n", 0)
		s.gone(pid)

		fifo := filepath.Join(s.dir, "fifo")
		if err := unix.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		s.want("(while read x; do echo late $x; done <"+fifo+"; touch "+s.dir+"/over) & exec 6>"+fifo, "", 0)
		s.want("echo a >&6; echo mine", "mine\n", 0)
		s.want("echo b >&6; exec 6>&-; wait 2>/dev/null; test -e "+s.dir+"/over && echo over", "over\n", 0)
	})
}

func BenchmarkShell(b *testing.B) {
	a, err := guest.New(guest.Config{Workspace: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	h := &host{TB: b, agent: a, socket: serve(b, a)}
	s := h.shell()
	s.do("true")
	for b.Loop() {
		s.do("true")
		h.ask(wire.Request{Op: wire.OpForget, ID: fmt.Sprintf("c%d", s.n)}).reply()
	}
}
