package runtimetest

import (
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
)

// clinger leaves an orphaned process with a session of its own that ignores TERM. Its pid is in the file named by $1.
const clinger = `(setsid sh -c 'trap "" TERM HUP INT; echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 1000' "$1" >/dev/null 2>&1 </dev/null &)
while [ ! -e "$1" ]; do sleep 0.01; done
`

// alive reports whether the process whose pid is in a file runs.
func (j *jar) alive(path string) bool {
	j.Helper()
	pid := strings.TrimSpace(j.read(path))
	if pid == "" {
		j.Fatalf("%s holds no pid", path)
	}
	return j.run(j.sh("kill -0 $1", pid)).exit.Code == 0
}

func testEnding(t *testing.T, o Options) {
	j := share(t, o)
	// The shell must set its traps before the timeout. On a busy machine it gets a longer timeout, until it does.
	timed := func(j *jar, script string, grace int64, args ...string) (got outcome, timeout int64) {
		for timeout = 1000; ; timeout *= 3 {
			e := j.sh(script, args...)
			e.TimeoutMS, e.GraceMS = timeout, grace
			if got = j.run(e); strings.HasPrefix(got.out, "ready\n") || timeout > patience.Milliseconds()/20 {
				return got, timeout
			}
			j.must(`rm -f "$@"`, args...)
		}
	}
	const long = 60_000 // long enough as a grace, in milliseconds
	j.sub("timeout obeyed", func(j *jar) {
		got, _ := timed(j, "trap 'echo bye; exit 4' TERM; echo ready; sleep 1000 & wait", long)
		if got.out != "ready\nbye\n" || got.exit.Cause != wire.CauseTimeout || got.exit.Code != 4 {
			j.Errorf("%+v", got)
		}
	})
	j.sub("no process survives a timeout", func(j *jar) {
		got, timeout := timed(j, clinger+"trap '' TERM; echo ready; sleep 1000; sleep 1000", 200, "late")
		if got.out != "ready\n" || got.exit.Cause != wire.CauseTimeout || got.exit.Signal != 9 {
			j.Errorf("%+v", got)
		}
		if got.exit.WallMS < float64(timeout)+190 {
			j.Errorf("no grace: over after %v ms", got.exit.WallMS)
		}
		if j.alive("late") {
			j.Error("a process outlived the timeout")
		}
	})
	j.sub("success in the grace is no success", func(j *jar) {
		got, _ := timed(j, "trap 'exit 0' TERM; echo ready; sleep 1000 & wait", long)
		if got.exit.Cause != wire.CauseTimeout || got.exit.Code != 0 || got.exit.Signal != 0 {
			j.Errorf("%+v", got)
		}
	})
	for name, script := range map[string]string{
		"one process":                        "while :; do :; done",
		"children that outlive their parent": "for n in 1 2; do (setsid sh -c 'trap \"\" TERM; while :; do :; done' &); done; exec sleep 1000",
		"children that end at once":          "while :; do /bin/true; sh -c 'i=0; while [ $i -lt 100 ]; do i=$((i+1)); done'; done",
	} {
		j.sub("CPU time of "+name, func(j *jar) {
			e := j.sh(script)
			e.CPUTimeMS, e.GraceMS, e.TimeoutMS = 300, 100, patience.Milliseconds()
			got := j.run(e)
			if got.exit.Cause != wire.CauseCPUTime || got.exit.Signal == 0 {
				j.Errorf("%+v", got)
			}
			if used := got.exit.Usage.UserMicros + got.exit.Usage.SystemMicros; used < 300_000 {
				j.Errorf("ended after %d microseconds of 300,000", used)
			}
		})
	}
	j.sub("CPU time of a sleeper", func(j *jar) {
		e := j.sh("sleep 1; exit 3")
		e.CPUTimeMS = 900
		if got := j.run(e); got.exit.Cause != wire.CauseExited || got.exit.Code != 3 {
			j.Errorf("%+v", got)
		}
	})
	for name, end := range map[string]func(*jar, string, func(time.Duration) error) error{
		"end on the stream": func(_ *jar, _ string, end func(time.Duration) error) error { return end(100 * time.Millisecond) },
		"end from elsewhere": func(j *jar, id string, _ func(time.Duration) error) error {
			return j.agent.Kill(j.ctx, id, wire.Kill{End: true, GraceMS: 100})
		},
	} {
		j.sub(name, func(j *jar) {
			file := strings.ReplaceAll(name, " ", "-")
			p := j.start(j.sh(clinger+"trap '' TERM; echo ready; sleep 1000; sleep 1000", file))
			w := j.watch(p)
			w.await("ready")
			if !j.alive(file) {
				j.Fatal("the clinger never lived")
			}
			if err := end(j, p.Started().ID, p.End); err != nil {
				j.Fatal(err)
			}
			if exit := w.end(); exit.Cause != wire.CauseEnded || exit.Signal != 9 {
				j.Errorf("%+v", exit)
			}
			if j.alive(file) {
				j.Error("a process outlived the end")
			}
		})
	}
	j.sub("end of a stopped program", func(j *jar) {
		p := j.start(j.sh("echo ready; kill -STOP $$"))
		w := j.watch(p)
		w.await("ready")
		if err := p.End(50 * time.Millisecond); err != nil {
			j.Fatal(err)
		}
		if exit := w.end(); exit.Cause != wire.CauseEnded {
			j.Errorf("%+v", exit)
		}
	})
	j.sub("signal", func(j *jar) {
		p := j.start(j.sh("trap 'echo usr1' USR1; echo ready; while :; do sleep 0.01; done"))
		w := j.watch(p)
		w.await("ready")
		if err := p.Signal(10); err != nil {
			j.Fatal(err)
		}
		w.await("usr1")
		if err := p.Signal(9); err != nil {
			j.Fatal(err)
		}
		if exit := w.end(); exit.Signal != 9 || exit.Cause != wire.CauseExited {
			j.Errorf("%+v", exit)
		}
	})
}

func testSurvivors(t *testing.T, o Options) {
	j := share(t, o)
	j.sub("killed with a one-shot run", func(j *jar) {
		got := j.run(j.sh(clinger+"sleep 1000 & echo done; exit 6", "oneshot"))
		if got.out != "done\n" || got.exit.Code != 6 || got.exit.Cause != wire.CauseExited {
			j.Errorf("%+v", got)
		}
		if j.alive("oneshot") {
			j.Error("a process outlived its run")
		}
	})
	j.sub("do not hold the exec", func(j *jar) {
		e := j.sh("sleep 1000 & echo $! >held; echo done")
		e.KillAll = false
		got := j.run(e)
		if got.out != "done\n" || got.exit.Code != 0 {
			j.Errorf("%+v", got)
		}
		if got.exit.WallMS > 100_000 { // the survivor sleeps for ten times that
			j.Errorf("over after %v ms", got.exit.WallMS)
		}
		if !j.alive("held") {
			j.Error("the survivor is dead")
		}
	})
	j.sub("may go on printing", func(j *jar) {
		e := j.sh(`(while [ ! -e go ]; do sleep 0.01; done
			head -c 1000000 /dev/zero || exit; echo late || exit; echo well >proof.new; mv proof.new proof) & echo done`)
		e.KillAll = false
		p := j.start(e)
		got := j.follow(p)
		if got.out != "done\n" {
			j.Errorf("%+v", got)
		}
		p.Close()
		j.write("go", "")
		j.until("a survivor prints without being killed for it", func() bool { return j.exists("proof") })
	})
}
