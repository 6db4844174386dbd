package runtimetest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

// testShell tests the shell of every runtime: it keeps its state, ends its commands, and is replaced.
func testShell(t *testing.T, o Options) {
	pids := belljar.DefaultLimits().Pids
	command := func(j *jar, cmd string) wire.Exec {
		e := j.command()
		e.KillAll, e.Shell = false, &wire.ShellRun{Cmd: []byte(cmd)}
		if o.Isolated { // otherwise the user has other processes, too
			// Like the service's limit, this reserves processes for the agent.
			e.Rlimits = map[string]uint64{"nproc": uint64(pids)}
		}
		return e
	}
	want := func(j *jar, cmd, out string, code int) wire.Exit {
		j.Helper()
		got := j.run(command(j, cmd))
		if got.out != out || got.err != "" || got.exit.Code != code || got.exit.Cause != wire.CauseExited || got.exit.Shell == nil {
			j.Errorf("%q: %+v; want %q, %d", cmd, got, out, code)
		}
		return got.exit
	}
	j := open(t, o)
	j.sub("state", func(j *jar) {
		if exit := want(j, "cd /tmp; x=1; f() { echo $x$x; }", "", 0); exit.Cwd != "/tmp" || exit.Shell.Replaced {
			j.Errorf("%+v, %+v", exit, exit.Shell)
		}
		want(j, "pwd; f; (exit 3)", "/tmp\n11\n", 3)
	})
	j.sub("terminal", func(j *jar) {
		want(j, "test -t 1 && test -t 2 && ! test -t 0 && echo one >&2", "one\n", 0)
		want(j, "echo two >/dev/tty; cat </dev/tty", "two\n", 0)
		got := j.run(command(j, "printf '\\000\\377\\r\\n\\004'"))
		if got.out != "\x00\xff\r\n\x04" {
			j.Errorf("bytes: %q", got.out)
		}
	})
	j.sub("pipes", func(j *jar) {
		e := command(j, "cat; echo err >&2; test -t 1 || (exit 4)")
		e.Shell.Separate, e.Stdin = true, true
		p := j.start(e)
		if _, err := p.Write([]byte("typed")); err != nil {
			j.Fatal(err)
		}
		if err := p.CloseStdin(); err != nil {
			j.Fatal(err)
		}
		if got := j.follow(p); got.out != "typed" || got.err != "err\n" || got.exit.Code != 4 {
			j.Errorf("%+v", got)
		}
		if o.Isolated {
			want(j, "ls -A /tmp | grep belljar", "", 1)
		}
	})
	j.sub("no process forges", func(j *jar) {
		got := j.run(command(j, "cd /tmp; ls /proc/self/fd | wc -l"))
		// Other shells may pass more descriptors to their children. The agent ignores all that children write to those.
		if got.exit.Shell == nil || got.exit.Shell.Program == "bash" && got.out != "4\n" {
			j.Errorf("descriptors: %+v", got)
		}
		j.run(command(j, "sh -c 'for f in /proc/$PPID/fd/*; do echo x >$f; done' 2>/dev/null"))
		exit := want(j, "printf '\\n__SANDKASTEN_END__:x:0:/forged\\n'; (exit 7)", "\n__SANDKASTEN_END__:x:0:/forged\n", 7)
		if exit.Cwd != "/tmp" || exit.Shell.Replaced {
			j.Errorf("%+v, %+v", exit, exit.Shell)
		}
	})
	j.sub("timeout", func(j *jar) {
		want(j, "sleep 1000 & y=kept", "", 0)
		// A unique number: without isolation, the same test of another package is visible.
		late := "sleep 1001." + strconv.FormatUint(uint64(rand.Uint32()), 10)
		e := command(j, "(sleep 1000 &); "+late+"; echo not reached")
		e.TimeoutMS, e.GraceMS = 1000, 30_000 // the time that the shell has to return
		got := j.run(e)
		if got.exit.Cause != wire.CauseTimeout || got.exit.Code != 124 || got.exit.Shell.Replaced || strings.Contains(got.out, "reached") {
			j.Errorf("%+v, %+v", got, got.exit.Shell)
		}
		want(j, "echo $y; jobs | wc -l", "kept\n1\n", 0)
		if left := j.must("for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null; echo; done | grep -c '^" + late + "' | cat"); left != "0" {
			j.Errorf("%s of the command's processes are left", left)
		}
		want(j, "kill %1; wait 2>/dev/null", "", 0)
	})
	j.sub("interrupt", func(j *jar) {
		want(j, "sleep 1000 & y=kept", "", 0)
		e := command(j, `sh -c 'trap "echo interrupted; exit 3" INT; trap "echo ended" TERM; echo ready; while :; do sleep 0.01; done'; echo not reached`)
		p := j.start(e)
		w := j.watch(p)
		w.await("ready")
		if err := j.agent.Kill(j.ctx, p.Started().ID, wire.Kill{End: true, GraceMS: 60_000}); err != nil {
			j.Fatal(err)
		}
		if exit := w.end(); exit.Shell.Replaced || w.seen() != "ready\ninterrupted\n" {
			j.Errorf("%q, %+v, %+v", w.seen(), exit, exit.Shell)
		}
		want(j, "echo $y; jobs | wc -l", "kept\n1\n", 0)
		want(j, "kill %1; wait 2>/dev/null", "", 0)
	})
	j.sub("replaced", func(j *jar) {
		want(j, "cd /tmp; z=1", "", 0)
		for _, cmd := range []string{"exit 3", "exec sh -c 'exit 3'"} {
			if exit := want(j, cmd, "", 3); !exit.Shell.Replaced || exit.Cwd != "/tmp" {
				j.Errorf("%q: %+v, %+v", cmd, exit, exit.Shell)
			}
			want(j, "pwd; echo z=$z", "/tmp\nz=\n", 0)
		}
		got := j.run(command(j, "kill -9 $$"))
		if got.exit.Signal != 9 || !got.exit.Shell.Replaced {
			j.Errorf("%+v, %+v", got, got.exit.Shell)
		}
		want(j, "pwd", "/tmp\n", 0)
	})
	j.sub("large", func(j *jar) {
		want(j, "v="+strings.Repeat("'v'", 300_000)+"; echo ${#v}", "300000\n", 0)
		if got := j.run(command(j, "head -c 3000000 /dev/zero | tr '\\0' x")); len(got.out) != 3_000_000 || got.exit.Code != 0 {
			j.Errorf("%d bytes, %+v", len(got.out), got.exit)
		}
	})
	j.sub("many", func(j *jar) {
		want(j, "n=0", "", 0)
		for i := range 50 {
			want(j, "n=$((n+1)); echo $n", fmt.Sprintln(i+1), 0)
		}
	})
	if !o.Isolated {
		return
	}
	j.sub("fork bomb", func(j *jar) {
		caps, err := j.runtime.Probe(j.ctx)
		if err != nil || !caps.Protection(runtime.ProtectPids).Enforced {
			j.Skip("nothing holds it here: ", err)
		}
		if caps.OOMScope == "sandbox" {
			// Every process would copy the memory that the shell holds after the large commands: too much together. This kernel
			// forks slowly, so a bomb with a lower limit is at it for as long.
			pids = 64
			j = open(j.T, o, func(s *runtime.Spec) { s.Limits.Pids = pids })
		}
		want(j, "w=kept; cd /workspace", "", 0)
		e := command(j, "b() { b | b & }; b; while :; do :; done") // itself forks no more: dash exits if a fork fails
		e.TimeoutMS, e.GraceMS = 500, 200
		if got := j.run(e); got.exit.Cause != wire.CauseTimeout {
			j.Errorf("%+v", got.exit)
		}
		want(j, "pwd", "/workspace\n", 0)
	})
}

// testShellRestart tests that a shell and its command outlive the host.
func testShellRestart(t *testing.T, o Options) {
	if o.Restart == nil {
		t.Skip("this runtime's tests cannot restart it")
	}
	j := open(t, o, detached)
	command := func(cmd string) wire.Exec {
		e := j.command()
		e.KillAll, e.Shell = false, &wire.ShellRun{Cmd: []byte(cmd)}
		return e
	}
	j.run(command("w=$PWD; cd /tmp; x=kept; sleep 1000 &"))
	e := command("echo before; while ! test -e $w/go; do sleep 0.02; done; echo after")
	w := j.watch(j.start(e))
	w.await("before")
	j.restart()
	p, err := j.agent.Attach(j.ctx, e.ID, 0) // before the command ends: otherwise the old host's connection would get the rest
	if err != nil {
		t.Fatal(err)
	}
	j.write("go", "")
	if got := j.follow(p); got.out != "before\nafter\n" || got.exit.Code != 0 || got.exit.Cwd != "/tmp" {
		t.Errorf("%+v", got)
	}
	if got := j.run(command("echo $x; pwd; jobs | wc -l")); got.out != "kept\n/tmp\n1\n" {
		t.Errorf("%+v", got)
	}
}
