//go:build linux

package guest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
)

// A command's children cannot forge its status or directory, whatever they write to, and have none of our descriptors.
func TestShellCannotBeForged(t *testing.T) {
	shells(t, func(t *testing.T, s *term, program string) {
		s.want("true", "", 0)
		out, _ := s.do("ls /proc/self/fd | cat")
		if got := strings.Fields(out); len(got) != 4 { // 0, 1, 2 and the descriptor of ls
			t.Errorf("a child has descriptors %q", got)
		}
		s.want("for f in 3 4 5 6 7 8 9 97 98 99 100; do sh -c \"echo x >&$f\" 2>/dev/null && echo $f; done; true", "", 0)
		// A forged end marker of another shell driver.
		s.want(`printf '\n__SANDKASTEN_END__:%s:%d:%s\n' c1 0 /forged; cd /tmp; (exit 4)`, "\n__SANDKASTEN_END__:c1:0:/forged\n", 4)
		// A child that searches /proc for the shell's descriptors, including its own output.
		attacks := []string{"sh -c 'for f in /proc/$PPID/fd/*; do echo \"0 0\" >$f; done' 2>/dev/null"}
		if program == "bash" { // a subshell is a fork of the shell, with the saved descriptors
			attacks = append(attacks,
				"(for f in {3..255}; do for id in '' 0000000000000000; do printf '%s 0' $id >&$f; done; done) 2>/dev/null",
				"(for f in {3..255}; do echo \"cd /; echo forged\" >&$f; done) 2>/dev/null",
				// The shell itself can forge only its own report, and only on purpose.
				"for f in {10..30} 98 99; do printf 'x 0' >&$f; done 2>/dev/null")
		}
		for _, attack := range attacks {
			_, exit := s.do(attack + "; (exit 9)")
			if s.kept(exit); exit.Code != 9 || exit.Cause != wire.CauseExited || exit.Cwd != "/tmp" {
				t.Errorf("%q: %+v", attack, exit)
			}
			s.want("echo next; (exit 3)", "next\n", 3)
		}
		s.want("read line </dev/tty; echo \"$line\"", "\n", 0)
		s.want("echo fine", "fine\n", 0)
	})
}

// A command can break its shell, and the next one gets a new shell in the same directory.
func TestShellIsReplaced(t *testing.T) {
	shells(t, func(t *testing.T, s *term, program string) {
		for _, test := range []struct {
			cmd    string
			code   int
			signal int
		}{
			{cmd: "exit 3", code: 3},
			{cmd: "exec true", code: 0},
			{cmd: "exec sh -c 'exit 4'", code: 4},
			{cmd: "kill -9 $$", code: -1, signal: 9},
			{cmd: "set -e; false; true", code: 1},
			{cmd: "trap 'exit 6' EXIT; exit 5", code: 6},
		} {
			s.want("cd /tmp", "", 0)
			out, exit := s.do("echo once; " + test.cmd)
			if out != "once\n" || exit.Code != test.code || exit.Signal != test.signal || exit.Cause != wire.CauseExited || exit.Cwd != "/tmp" {
				t.Errorf("%q: %q, %+v", test.cmd, out, exit)
			}
			s.replaced(exit)
			s.want("pwd; cd", "/tmp\n", 0)
		}
	})
}

// A job that kills its shell between two commands loses the state, and that is reported.
func TestShellDiesIdle(t *testing.T) {
	s := begin(t, guest.Config{}).shell()
	fifo := filepath.Join(s.dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := s.do("x=1; (read y <" + fifo + "; kill -9 $$) & echo $$")
	shell := number(t, out)
	w, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.Write([]byte("\n"))
	w.Close()
	fd, err := unix.PidfdOpen(shell, 0)
	if err == nil {
		unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
		unix.Close(fd)
	}
	exit := s.want("echo x=$x", "x=\n", 0)
	if !exit.Shell.Replaced {
		t.Errorf("%+v", exit)
	}
	s.kept(s.want("echo y", "y\n", 0))
}

// Descriptors and terminals that a command closes, redirects or changes are restored for the next one.
func TestShellSurvives(t *testing.T) {
	shells(t, func(t *testing.T, s *term, program string) {
		for _, cmd := range []string{
			"exec 1>&- 2>&-", "exec 0<&-", "exec >/dev/null 2>&1", "exec </dev/zero", "exec 3>&- 9>&-",
			"stty raw -echo </dev/tty", "stty sane </dev/tty", "trap '' INT TERM HUP", "trap - INT TERM HUP", "set +m", "set -m",
			"PS1='$(exit 4) noise'; PS2=x", "PATH=", "PATH=/usr/bin:/bin; export PATH", "IFS=0123456789", "unset IFS", "printf() { :; }; echo() { :; }",
			"unset -f printf echo", "alias printf=false echo=false eval=false command=false builtin=false .=false", "unalias -a",
		} {
			if exit := s.want(cmd+" ; true", "", 0); exit.Shell.Replaced {
				t.Errorf("%q: %+v", cmd, exit.Shell)
			}
			if out, exit := s.do("(exit 7)"); out != "" || exit.Code != 7 || exit.Shell.Replaced {
				t.Errorf("after %q: %q %+v %+v", cmd, out, exit, exit.Shell)
			}
		}
		s.kept(s.want("command printf 'fine\\n'", "fine\n", 0))
	})
}

// A shell without its own descriptors is replaced, and no command hangs.
func TestShellWithoutItsDescriptors(t *testing.T) {
	s := begin(t, guest.Config{}).shell()
	for _, cmd := range []string{
		"for f in {10..30}; do eval \"exec $f>&-\"; done", "exec 10<&-", "exec 11>&- 12>&- 13>&- 14>&-", "ulimit -n 20",
	} {
		s.do(cmd)
		s.do("true") // may still reach the ending shell
		s.want("echo fine", "fine\n", 0)
	}
}

// A shell that cannot read our commands is replaced: success is only reported for a command that started, and no command starts
// twice.
func TestShellThatCannotBegin(t *testing.T) {
	s := begin(t, guest.Config{}).shell()
	for _, test := range []struct{ cmd, next, out string }{
		{cmd: "cd /tmp; set -r", next: "cd /; pwd", out: "/\n"},
		{cmd: "cd /tmp; PROMPT_COMMAND='(( n++ == 1 )) && read line'", next: "pwd", out: "/tmp\n"},
		{cmd: "cd /tmp; PROMPT_COMMAND='(( n++ == 1 )) && enable -n printf'", next: "echo x >>" + s.dir + "/count", out: ""},
	} {
		s.do(test.cmd)
		for range 2 {
			out, exit := s.do(test.next)
			if exit.Code != 0 || exit.Cause != wire.CauseExited || !strings.HasSuffix(out, test.out) {
				t.Errorf("%q after %q: %q, %+v", test.next, test.cmd, out, exit)
			}
		}
	}
	if got, err := os.ReadFile(filepath.Join(s.dir, "count")); err != nil || string(got) != "x\nx\n" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestPlainShellOutput(t *testing.T) {
	shells(t, func(t *testing.T, s *term, program string) {
		if out, exit := s.do("head -c 10000000 /dev/zero | tr '\\0' x"); len(out) != 10_000_000 || exit.Code != 0 {
			t.Errorf("%d bytes, %+v", len(out), exit)
		}
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		if err := os.WriteFile(filepath.Join(s.dir, "bytes"), every, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, _ := s.do("cat " + s.dir + "/bytes"); !bytes.Equal([]byte(out), every) {
			t.Errorf("%q", out)
		}
		s.want("printf '\\033[2J\\007\\r\\n\\004\\032end'", "\033[2J\a\r\n\x04\x1aend", 0)
		if out, _ := s.do("seq 1 200000"); !strings.HasSuffix(out, "199999\n200000\n") || strings.Count(out, "\n") != 200000 {
			t.Errorf("%d bytes", len(out))
		}
		s.want("test -t 1 && test -t 2 && ! test -t 0 && echo a terminal", "a terminal\n", 0)
		s.want("echo to it >/dev/tty", "to it\n", 0)
		s.spec.OutputLimit = 10
		if out, exit := s.do("seq 1 100"); len(out) != 10 || exit.Dropped == 0 {
			t.Errorf("%q %+v", out, exit)
		}
	})
}

// With pipes, stdout and stderr are separate, and there may be stdin, which ends.
func TestShellPipes(t *testing.T) {
	shells(t, func(t *testing.T, s *term, _ string) {
		for _, test := range []struct {
			cmd, in, out, err string
			code              int
		}{
			{cmd: "echo out; echo err >&2; test -t 1 || exit_code=3; (exit $exit_code)", out: "out\n", err: "err\n", code: 3},
			{cmd: "cat", in: "some input", out: "some input"},
			{cmd: "read a; read b; echo $b$a; cat", in: "1\n2\n3\n", out: "21\n3\n"},
			{cmd: "true", in: strings.Repeat("not read", 1000)},
			{cmd: "head -c 4 | cat; echo", in: "abcdefg", out: "abcd\n"},
		} {
			e := s.command(test.cmd)
			e.Shell.Separate, e.Stdin = true, test.in != ""
			l := s.exec(e)
			l.started()
			if e.Stdin {
				if err := l.w.Data([]byte(test.in)); err != nil {
					t.Fatal(err)
				}
				if err := l.w.EOF(); err != nil {
					t.Fatal(err)
				}
			}
			out, errs, exit := l.follow(nil)
			if out != test.out || errs != test.err || exit.Code != test.code {
				t.Errorf("%q: %q, %q, %+v", test.cmd, out, errs, exit)
			}
		}
		s.want("cat; echo nothing to read", "nothing to read\n", 0)
	})
}

func TestShellPlaces(t *testing.T) {
	shells(t, func(t *testing.T, s *term, _ string) {
		for _, name := range []string{"a:b:c", "new\nline", " ", "-", "€", "x (deleted)", "'q\"", "$HOME"} {
			dir := filepath.Join(s.dir, name)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			quoted := "'" + strings.ReplaceAll(dir, "'", `'\''`) + "'"
			if exit := s.want("cd "+quoted, "", 0); exit.Cwd != "/workspace/"+name {
				t.Errorf("in %q it is at %q", name, exit.Cwd)
			}
		}
		if exit := s.want("mkdir gone && cd gone && rm -r ../gone", "", 0); exit.Cwd != "/workspace/$HOME/gone" {
			t.Errorf("cwd %q", exit.Cwd)
		}
		_, exit := s.do("exit 1")
		s.replaced(exit) // its directory is gone: the next one starts in the default one
		if exit := s.want("pwd", s.dir+"\n", 0); exit.Cwd != "/workspace" {
			t.Errorf("cwd %q", exit.Cwd)
		}
		if exit := s.want("cd /", "", 0); exit.Cwd != "/" {
			t.Errorf("cwd %q", exit.Cwd)
		}
	})
}

func TestShellIsRefused(t *testing.T) {
	s := begin(t, guest.Config{}).shell()
	for name, spoil := range map[string]func(*wire.Exec){
		"no command":   func(e *wire.Exec) { e.Shell.Cmd = nil },
		"NUL":          func(e *wire.Exec) { e.Shell.Cmd = []byte("echo a\x00b") },
		"a program":    func(e *wire.Exec) { e.Argv = []string{"true"} },
		"a terminal":   func(e *wire.Exec) { e.PTY = &wire.Size{Cols: 1, Rows: 1} },
		"kill all":     func(e *wire.Exec) { e.KillAll = true },
		"a long name":  func(e *wire.Exec) { e.Shell.Name = strings.Repeat("x", 65) },
		"no id":        func(e *wire.Exec) { e.ID = "" },
		"descriptors":  func(e *wire.Exec) { e.Rlimits = map[string]uint64{"nofile": 16} },
		"NUL in a var": func(e *wire.Exec) { e.Env = []string{"a=\x00"} },
		"NUL in a dir": func(e *wire.Exec) { e.Cwd = "/tmp/\x00" },
		"a negative":   func(e *wire.Exec) { e.TimeoutMS = -1 },
		"a long note":  func(e *wire.Exec) { e.Note = strings.Repeat("x", wire.MaxNote+1) },
		"no such user": func(e *wire.Exec) { e.UID = -1 },
	} {
		e := s.command("true")
		spoil(&e)
		t.Run(name, func(*testing.T) { s.exec(e).failure(wire.CodeInvalid) })
	}
	e := s.command("true")
	e.Env = []string{"PATH=/nowhere"}
	if got := s.exec(e).failure(wire.CodeExecFailed); got.Errno != int(unix.ENOENT) {
		t.Errorf("without any shell: %+v", got)
	}
	for i := range 20 {
		e := s.command("true")
		e.Shell.Name = strings.Repeat("n", i)
		if l := s.exec(e); i < 16 {
			l.started()
			l.exit()
		} else {
			l.failure(wire.CodeTooLarge)
		}
	}
	s.spec.Rlimits = map[string]uint64{"nofile": 64}
	other := begin(t, guest.Config{}).shell()
	other.spec.Rlimits = map[string]uint64{"nofile": 64}
	other.want("ulimit -n; (exit 3)", "64\n", 3)
	other.kept(other.want("(exit 4)", "", 4))
}
