package runtimetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/belljar/belljar/internal/agent/wire"
)

func testExec(t *testing.T, o Options) {
	j := share(t, o)
	j.sub("argv", func(j *jar) {
		if got := j.must(`printf '%s|' "$@"`, "a b", "", "ü\n", "$x", `"'\`); got != "a b||ü\n|$x|\"'\\|" {
			j.Errorf("%q", got)
		}
	})
	j.sub("env", func(j *jar) {
		e := j.command("env")
		e.Env = append(e.Env, "EMPTY=", "TWO=a=b", "SPACE=x y\tz")
		got := strings.Split(strings.TrimSuffix(j.run(e).out, "\n"), "\n")
		want := slices.Clone(e.Env)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			j.Errorf("%q", got)
		}
	})
	j.sub("cwd", func(j *jar) {
		if err := j.agent.Mkdir(j.ctx, j.file("sub/deep")); err == nil {
			j.Error("mkdir without parents")
		}
		dir := j.file("sub/deep")
		dir.Parents = true
		if err := j.agent.Mkdir(j.ctx, dir); err != nil {
			j.Fatal(err)
		}
		j.write("marker", "top")
		j.write("sub/deep/marker", "deep")
		for cwd, want := range map[string]string{"": "top", "sub/deep": "deep", "/workspace": "top", "/workspace/sub/deep": "deep"} {
			e := j.command("cat", "marker")
			e.Cwd = cwd
			if got := j.run(e); got.out != want {
				j.Errorf("in %q: %+v", cwd, got)
			}
		}
		e := j.command("true")
		e.Cwd = "missing"
		_, err := j.agent.Exec(j.ctx, e)
		j.refused("a cwd that is not there", err, wire.CodeExecFailed)
	})
	j.sub("user", func(j *jar) {
		if got, want := j.must("id -u; id -g"), fmt.Sprintf("%d\n%d", j.o.UID, j.o.GID); got != want {
			j.Errorf("%q instead of %q", got, want)
		}
	})
	j.sub("rlimits", func(j *jar) {
		e := j.sh("ulimit -n; ulimit -H -n; ulimit -c")
		e.Rlimits = map[string]uint64{"nofile": 64, "core": 0}
		if got := j.run(e).out; got != "64\n64\n0\n" {
			j.Errorf("%q", got)
		}
		e = j.sh("ulimit -n; ulimit -H -n; ulimit -c")
		e.Rlimits = map[string]uint64{"nofile": 8192, "core": 0} // more than the sandbox's limits have
		if got := j.run(e).out; got != "8192\n8192\n0\n" {
			j.Errorf("%q", got)
		}
		e = j.command("true")
		e.Rlimits = map[string]uint64{"nonsense": 1}
		_, err := j.agent.Exec(j.ctx, e)
		j.refused("an unknown rlimit", err, wire.CodeInvalid)
	})
	j.sub("codes", func(j *jar) {
		for _, code := range []int{0, 1, 3, 126, 127, 255} {
			if got := j.run(j.sh("exit $1", fmt.Sprint(code))).exit; got.Code != code || got.Signal != 0 || got.Cause != wire.CauseExited {
				j.Errorf("exit %d: %+v", code, got)
			}
		}
		for _, signal := range []int{1, 6, 9, 15} {
			if got := j.run(j.sh("kill -$1 $$", fmt.Sprint(signal))).exit; got.Code != -1 || got.Signal != signal || got.Cause != wire.CauseExited {
				j.Errorf("signal %d: %+v", signal, got)
			}
		}
	})
	j.sub("not startable", func(j *jar) {
		j.write("plain", "#!/bin/sh\n")
		j.write("orphan", "#!/no/such/interpreter\n")
		j.must("chmod 755 orphan; mkdir -p folder")
		for _, c := range []struct {
			argv  string
			errno []syscall.Errno
		}{
			{"no-such-command", []syscall.Errno{syscall.ENOENT}},
			{"/no/such/command", []syscall.Errno{syscall.ENOENT}},
			{"./plain", []syscall.Errno{syscall.EACCES}},
			{"./folder", []syscall.Errno{syscall.EACCES}},
			{"./orphan", []syscall.Errno{syscall.ENOENT}},
		} {
			_, err := j.agent.Exec(j.ctx, j.command(c.argv))
			var e *wire.Error
			if !errors.As(err, &e) || e.Code != wire.CodeExecFailed || !slices.Contains(c.errno, syscall.Errno(e.Errno)) || e.Step == "" {
				j.Errorf("%s: %#v", c.argv, err)
			}
		}
		_, err := j.agent.Exec(j.ctx, j.command())
		j.refused("an empty command", err, wire.CodeInvalid)
		_, err = j.agent.Exec(j.ctx, j.command("a\x00b"))
		j.refused("a NUL byte", err, wire.CodeInvalid)
	})
	j.sub("same id", func(j *jar) {
		e := j.sh("echo started >>count; echo out; read x; exit 5")
		e.Stdin = true
		first := j.start(e)
		again := j.start(e)
		if first.Started().Attached || !again.Started().Attached {
			j.Errorf("first %+v, again %+v", first.Started(), again.Started())
		}
		w := j.watch(again)
		w.await("out")
		if _, err := again.Write([]byte("\n")); err != nil {
			j.Fatal(err)
		}
		if exit := w.end(); exit.Code != 5 {
			j.Errorf("%+v", exit)
		}
		if got := j.read("count"); got != "started\n" {
			j.Errorf("started %q", got)
		}
	})
	j.sub("many at once", func(j *jar) {
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				p, err := j.agent.Exec(j.ctx, j.sh("echo $1; exit $1", fmt.Sprint(i)))
				if err != nil {
					j.Errorf("%d: %v", i, err)
					return
				}
				defer p.Close()
				var out []byte
				exit, err := p.Output(j.ctx, func(_ int64, _ wire.Stream, b []byte) error {
					out = append(out, b...)
					return nil
				})
				if err != nil || exit.Code != i || string(out) != fmt.Sprintf("%d\n", i) {
					j.Errorf("%d: %+v, %q, %v", i, exit, out, err)
				}
			})
		}
		all.Wait()
	})
	j.sub("list and forget", func(j *jar) {
		p := j.start(j.sh("echo hello; exit 2"))
		id := p.Started().ID
		j.follow(p)
		running := j.start(j.sh("sleep 1000"))
		infos, err := j.agent.List(j.ctx)
		if err != nil {
			j.Fatal(err)
		}
		at := slices.IndexFunc(infos, func(i wire.ExecInfo) bool { return i.ID == id })
		if at < 0 || infos[at].Running || infos[at].Position != 6 || infos[at].Exit == nil || infos[at].Exit.Code != 2 {
			j.Errorf("the finished one: %+v", infos)
		}
		at = slices.IndexFunc(infos, func(i wire.ExecInfo) bool { return i.ID == running.Started().ID })
		if at < 0 || !infos[at].Running || infos[at].Exit != nil {
			j.Errorf("the running one: %+v", infos)
		}
		j.refused("forget a running one", j.agent.Forget(j.ctx, running.Started().ID), wire.CodeInvalid)
		for range 2 {
			if err := j.agent.Forget(j.ctx, id); err != nil {
				j.Error(err)
			}
		}
		_, err = j.agent.Attach(j.ctx, id, 0)
		j.refused("attach to a forgotten one", err, wire.CodeNotFound)
		j.refused("signal a forgotten one", j.agent.Kill(j.ctx, id, wire.Kill{Signal: 15}), wire.CodeNotFound)
		if err := j.agent.Kill(j.ctx, running.Started().ID, wire.Kill{Signal: 15}); err != nil {
			j.Error(err)
		}
		if got := j.follow(running).exit; got.Signal != 15 {
			j.Errorf("%+v", got)
		}
	})
}
