//go:build linux

package service_test

import (
	"errors"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

// inShell returns a command for a session's shell.
func inShell(session, cmd string) belljar.RunRequest {
	return belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: "1.1", SessionID: session, Shell: &belljar.ShellCommand{Cmd: cmd},
	}}
}

// Every shell command is a run, with a log and a record, and reports the state of its shell.
func TestShellCommandIsARun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.open().ID
	r := b.run(inShell(id, "cd /tmp; x=1; echo out; echo err >&2"))
	r.want(t, belljar.PhaseCompleted, 0, "")
	if r.stdout != "out\nerr\n" || r.stderr != "" || r.Shell == nil || *r.Shell != (belljar.ShellState{Cwd: "/tmp", State: belljar.ShellKept, Program: "bash"}) {
		t.Errorf("%q %q %+v", r.stdout, r.stderr, r.Shell)
	}
	if len(r.Command) != 1 || r.ResourceUsage.WallTimeSec <= 0 {
		t.Errorf("%+v", r.Run)
	}
	separate := inShell(id, "echo $x; pwd >&2")
	separate.Shell.Separate = true
	if r := b.run(separate); r.stdout != "1\n" || r.stderr != "/tmp\n" {
		t.Errorf("%q %q", r.stdout, r.stderr)
	}
	r = b.run(inShell(id, "exit 3"))
	if r.want(t, belljar.PhaseFailed, 3, belljar.ReasonNonZeroExit); r.Shell == nil || r.Shell.State != belljar.ShellReplaced || r.Shell.Cwd != "/tmp" {
		t.Errorf("%+v", r.Shell)
	}
	slow := inShell(id, "sleep 1000")
	slow.TimeoutSec = late
	if r := b.run(slow); r.Phase != belljar.PhaseTimedOut || *r.ExitCode != 124 || r.Shell.State != belljar.ShellKept {
		t.Errorf("%+v %+v", r.Run, r.Shell)
	}
	s, err := b.service.As(service.Local()).Sessions().Get(b.context(), id)
	if err != nil || s.Cwd != "/tmp" {
		t.Errorf("%+v, %v", s, err)
	}
	typed := inShell(id, "cat")
	typed.Stdin = "typed"
	if r := b.run(typed); r.stdout != "typed" {
		t.Errorf("%q", r.stdout)
	}
}

// Commands of one shell run one at a time. One that is cancelled before its turn leaves the queue. Other runs do not wait.
func TestShellLine(t *testing.T) {
	b := newBench(t)
	id := b.open().ID
	b.run(inShell(id, "mkfifo go")).want(t, belljar.PhaseCompleted, 0, "")
	first := b.start(inShell(id, "echo up; read x <go; n=1"))
	b.waitFor(first.ID, "up")
	second, third := b.start(inShell(id, "echo never")), b.start(inShell(id, "echo $n"))
	if second.Phase != belljar.PhaseQueued || third.Phase != belljar.PhaseQueued {
		t.Errorf("%s, %s", second.Phase, third.Phase)
	}
	if err := b.Cancel(b.context(), second.ID); err != nil {
		t.Fatal(err)
	}
	if r := b.follow(second.ID); r.Phase != belljar.PhaseKilled || r.stdout != "" || r.Shell != nil {
		t.Errorf("%+v", r.Run)
	}
	aside := shell("echo >go")
	aside.SessionID, aside.BaseImage = id, ""
	b.run(aside).want(t, belljar.PhaseCompleted, 0, "")
	b.follow(first.ID).want(t, belljar.PhaseCompleted, 0, "")
	if r := b.follow(third.ID); r.stdout != "1\n" {
		t.Errorf("%q", r.stdout)
	}
	running := b.start(inShell(id, "m=2; echo up; sleep 1000; echo never"))
	b.waitFor(running.ID, "up")
	if err := b.Cancel(b.context(), running.ID); err != nil {
		t.Fatal(err)
	}
	if r := b.follow(running.ID); r.Phase != belljar.PhaseKilled || r.stdout != "up\n" || r.Shell == nil || r.Shell.State != belljar.ShellKept {
		t.Errorf("%+v %+v", r.Run, r.Shell)
	}
	if r := b.run(inShell(id, "echo $m$n")); r.stdout != "21\n" {
		t.Errorf("%q", r.stdout)
	}
}

// A command waits for its shell for as long as the one in front of it runs.
func TestShellLineIsPatient(t *testing.T) {
	clock := newHourglass()
	b := newBench(t, func(o *service.Options) { o.Clock = clock })
	id := b.open().ID
	b.run(inShell(id, "mkfifo go")).want(t, belljar.PhaseCompleted, 0, "")
	first := b.start(inShell(id, "echo up; read x <go"))
	b.waitFor(first.ID, "up")
	second := b.start(inShell(id, "echo $x"))
	clock.pass(121 * time.Second)
	b.run(in(b.state(id, belljar.SessionActive), "echo late >go")).want(t, belljar.PhaseCompleted, 0, "")
	if r := b.follow(second.ID); r.stdout != "late\n" {
		t.Errorf("%+v, %q", r.Run, r.stdout)
	}
}

func TestImagesThatAreAllowed(t *testing.T) {
	b := newBench(t, func(o *service.Options) {
		o.Policy = service.DefaultPolicy()
		o.Policy.AllowedImages = []string{"other", "another"}
	})
	_, err := b.Start(b.context(), command("true"))
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodePolicyDenied || e.Details["field"] != "base_image" {
		t.Errorf("%v", err)
	}
	plain, listed := service.DefaultPolicy(), service.DefaultPolicy()
	listed.AllowedImages = []string{"host"}
	if plain.Hash() == listed.Hash() {
		t.Error("the policy's hash does not tell")
	}
}
