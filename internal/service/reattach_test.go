//go:build linux

package service_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event/metric"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/service/placement"
)

// A broken stream, for example after a restart of the engine, does not end the command: output continues at the end
// of the log, even within a character, and input at the command's position.
func TestStreamsBreak(t *testing.T) {
	for _, mux := range []bool{false, true} {
		w := newWorld(t)
		w.mux = mux
		p := w.boot()
		s := p.open()
		gate := filepath.Join(t.TempDir(), "gate")
		cut := func() {
			if err := p.fake.Close(); err != nil {
				t.Fatal(err)
			}
		}
		text := seq(60_000) // larger than the buffers of a pipe and the agent
		printing := p.start(in(s, `printf 'one \303'; while [ ! -e `+gate+` ]; do sleep 0.01; done; printf '\251 two\n'; exit 3`))
		talking := in(s, "while read line; do echo got $line; done; echo over")
		talking.Interactive = true
		talks := p.start(talking)
		given := in(s, "read a; echo $a; while [ ! -e "+gate+" ]; do sleep 0.01; done; cat")
		given.Stdin = text
		fed := p.start(given)
		alone := p.start(belljar.RunRequest{RunSpec: belljar.RunSpec{
			SpecVersion: "1.0", BaseImage: "host", Command: []string{"/bin/sh", "-c", "echo a; while [ ! -e " + gate + " ]; do sleep 0.01; done; echo b"},
		}})
		input := p.stdin(talks.ID)
		p.waitFor(printing.ID, "one ")
		p.waitFor(fed.ID, "1\n")
		p.waitFor(alone.ID, "a\n")
		for _, word := range []string{"1", "2", "3"} {
			p.say(input, word+"\n")
			cut()
			p.waitFor(talks.ID, "got "+word+"\n")
		}
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		cut()
		if err := input.End(); err != nil {
			t.Fatal(err)
		}
		cut()
		r := p.follow(printing.ID)
		r.want(t, belljar.PhaseFailed, 3, belljar.ReasonNonZeroExit)
		wantText(t, r.stdout, "one é two\n")
		r = p.follow(talks.ID)
		r.want(t, belljar.PhaseCompleted, 0, "")
		wantText(t, r.stdout, "got 1\ngot 2\ngot 3\nover\n")
		r = p.follow(fed.ID)
		r.want(t, belljar.PhaseCompleted, 0, "")
		wantText(t, r.stdout, text)
		r = p.follow(alone.ID)
		r.want(t, belljar.PhaseCompleted, 0, "")
		wantText(t, r.stdout, "a\nb\n")
		p.end(s)
	}
}

// A run that is cancelled while its agent is unreachable ends when the agent is reachable again.
func TestCancelOverABrokenStream(t *testing.T) {
	w := newWorld(t, limited(func(l *belljar.Limits) { l.GraceSec = patience.Seconds() }))
	p := w.boot()
	s := p.open()
	run := p.start(in(s, "trap 'echo ending; exit 0' TERM; echo ready; while :; do sleep 0.01; done"))
	p.waitFor(run.ID, "ready\n")
	if err := p.fake.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Cancel(p.context(), run.ID); err != nil {
		t.Fatal(err)
	}
	r := p.follow(run.ID)
	if r.Phase != belljar.PhaseKilled || !strings.Contains(r.stdout, "ending") {
		t.Errorf("%s, printed %q", r.Phase, r.stdout)
	}
	p.state(s.ID, belljar.SessionActive)
	p.end(s)
}

// The limits of a run that has begun, and of a session, do not change with the defaults of the next process.
func TestLimitsOutliveTheirProcess(t *testing.T) {
	w := newWorld(t)
	want := unhurried()
	want.CPU, want.MemoryMB, want.LogBytes, want.TimeoutSec, want.TmpMB, want.CPUTimeSec = 0.5, 300, 1000, 1234, 65, 0
	p := w.boot(limited(func(l *belljar.Limits) { *l = want }))
	s := p.open()
	gate := filepath.Join(t.TempDir(), "gate")
	script := "echo up; while [ ! -e " + gate + " ]; do sleep 0.01; done; seq 100"
	runs := []belljar.Run{p.start(shell(script)), p.start(in(s, script))}
	for _, run := range runs {
		p.waitFor(run.ID, "up\n")
	}
	p.kill()
	p = w.boot(limited(func(l *belljar.Limits) {
		*l = belljar.Limits{
			CPU: 0.25, MemoryMB: 100, Pids: 99, NoFile: 99, NProc: 99, WorkspaceMB: 9, TmpMB: 9, Inodes: 999, LogBytes: 10, ArtifactMB: 9,
			StartupTimeoutSec: 99, TimeoutSec: 500, BuildTimeoutSec: 99, CPUTimeSec: 99, GraceSec: 9,
		}
	}))
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var got []*belljar.Limits
	for _, run := range runs {
		r := p.follow(run.ID)
		r.want(t, belljar.PhaseCompleted, 0, "")
		wantText(t, r.stdout, "up\n"+seq(100))
		got = append(got, r.ResourceUsage.Limits)
	}
	got = append(got, p.run(in(s, "true")).ResourceUsage.Limits)
	p.end(s)
	want = placement.WithDefaults(want, belljar.DefaultLimits())
	for _, l := range got {
		want.CPU, want.MemoryMB, want.Pids = l.CPU, l.MemoryMB, l.Pids // 0 if they are not enforced
		if diff := cmp.Diff(&want, l); diff != "" {
			t.Error(diff)
		}
	}
}

// A command that continues after a restart counts as running until its end.
func TestReattachedRunsAreCounted(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	s := p.open()
	gate := filepath.Join(t.TempDir(), "gate")
	script := "echo up; while [ ! -e " + gate + " ]; do sleep 0.01; done"
	runs := []belljar.Run{p.start(shell(script)), p.start(in(s, script))}
	for _, run := range runs {
		p.waitFor(run.ID, "up\n")
	}
	p.kill()
	counter := metric.New(metric.Options{Runtimes: []string{"fake"}})
	p = w.boot(func(o *service.Options) { o.Events = counter })
	running := func() (n float64) {
		all, err := counter.Snapshot()
		if err != nil {
			t.Error(err)
		}
		for _, series := range all["sandbox_runs"] {
			if series.Labels["phase"] == string(belljar.PhaseRunning) {
				n += series.Value
			}
		}
		return n
	}
	if n := running(); n != 2 {
		t.Errorf("%v runs are running", n)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		p.follow(run.ID).want(t, belljar.PhaseCompleted, 0, "")
	}
	p.until(func() bool { return running() == 0 })
	p.end(s)
}

// The request of a command that continues after a restart counts towards the memory for requests until its end.
func TestReattachedRequestsCount(t *testing.T) {
	w := newWorld(t)
	bounded := func(o *service.Options) { o.UserRequests = 1 << 20 }
	p := w.boot(bounded)
	gate := filepath.Join(t.TempDir(), "gate")
	long := shell("cat >/dev/null; echo up; while [ ! -e " + gate + " ]; do sleep 0.01; done")
	long.Stdin = strings.Repeat("x", 600<<10)
	run := p.start(long)
	p.waitFor(run.ID, "up\n")
	p.kill()
	p = w.boot(bounded)
	if _, err := p.Start(p.context(), long); belljar.CodeOf(err) != belljar.CodeRateLimited {
		t.Errorf("another one: %v", err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.follow(run.ID).want(t, belljar.PhaseCompleted, 0, "")
	p.follow(p.start(long).ID).want(t, belljar.PhaseCompleted, 0, "")
}
