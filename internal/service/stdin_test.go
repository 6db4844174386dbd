//go:build linux

package service_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/service/stdin"
)

// talk returns a request for an interactive shell script.
func talk(script string, change ...func(*stdin.Limits)) belljar.RunRequest {
	req := shell(script)
	req.SpecVersion, req.Interactive = "1.1", true
	for _, f := range change {
		l := stdin.LimitsOf(&req.RunSpec)
		f(&l)
		l.Apply(&req.RunSpec)
	}
	return req
}

// stdin opens the input of a run.
func (b *bench) stdin(id string) belljar.Stdin {
	b.t.Helper()
	in, err := b.Stdin(b.context(), id)
	if err != nil {
		b.t.Fatalf("stdin: %v", err)
	}
	return in
}

func (b *bench) say(in belljar.Stdin, text string) {
	b.t.Helper()
	if n, err := in.Write([]byte(text)); n != len(text) || err != nil {
		b.t.Fatalf("write %q: %d, %v", text, n, err)
	}
}

func wantReason(t *testing.T, in belljar.Stdin, reason string) {
	t.Helper()
	select {
	case <-in.Closed():
	case <-time.After(patience):
		t.Fatal("input is not closed")
	}
	if got := in.Reason(); got != reason {
		t.Errorf("closed for %q, want %q", got, reason)
	}
}

func TestInteractive(t *testing.T) {
	events := &diary{}
	b := newBench(t, func(o *service.Options) { o.Events = events })
	run := b.start(talk(`while read line; do echo "got $line"; done; echo end`))
	if !run.Interactive {
		t.Error("not interactive")
	}
	first, second := b.stdin(run.ID), b.stdin(run.ID)
	b.say(first, "one\n")
	b.waitFor(run.ID, "got one")
	b.say(second, "tw")
	b.say(first, "o\n")
	b.waitFor(run.ID, "got two")
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if err := first.End(); err != nil {
		t.Error(err)
	}
	r := b.follow(run.ID)
	r.want(t, belljar.PhaseCompleted, 0, "")
	if r.stdout != "got one\ngot two\nend\n" {
		t.Errorf("stdout %q", r.stdout)
	}
	wantReason(t, first, "client")
	for deadline := time.Now().Add(patience); len(events.named(event.StdinClosed)) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing is recorded")
		}
	}
	if e := events.named(event.StdinClosed)[0]; e.Count != 8 || e.Reason != "client" || e.Run.ID != run.ID {
		t.Errorf("%+v", e)
	}
	if _, err := b.Stdin(b.context(), run.ID); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("of a run that has ended: %v", err)
	}
}

func TestInteractiveLimits(t *testing.T) {
	b := newBench(t)
	for reason, test := range map[string]struct {
		set   func(*stdin.Limits)
		text  string
		code  belljar.Code
		print string
	}{
		"stdin_max_frame_bytes": {func(l *stdin.Limits) { l.MaxFrameBytes = 4 }, "12345", belljar.CodeTooLarge, "ok\n"},
		"stdin_max_bytes":       {func(l *stdin.Limits) { l.MaxBytes = 6 }, "1234", belljar.CodeQuotaExceeded, "ok\n"},
		"stdin_bps":             {func(l *stdin.Limits) { l.BytesPerSec = 4 }, "123456789", belljar.CodeQuotaExceeded, "ok\n"}, // at any later time
	} {
		t.Run(reason, func(t *testing.T) {
			run := b.start(talk("cat; exit 7", test.set))
			in := b.stdin(run.ID)
			b.say(in, "ok\n")
			if _, err := in.Write([]byte(test.text)); belljar.CodeOf(err) != test.code {
				t.Errorf("%v", err)
			}
			wantReason(t, in, reason)
			if r := b.follow(run.ID); r.stdout != test.print || exitOf(r) != 7 { // the program has read the end of file
				t.Errorf("%q, %d", r.stdout, exitOf(r))
			}
		})
	}
	t.Run("stdin_idle_timeout_sec", func(t *testing.T) {
		b := newBench(t, one)
		_, end := b.busy()
		run := b.start(talk("cat; exit 7", func(l *stdin.Limits) { l.IdleTimeoutSec = 1 }))
		in := b.stdin(run.ID) // before its idle time begins
		end()
		wantReason(t, in, "stdin_idle_timeout_sec")
		if r := b.follow(run.ID); exitOf(r) != 7 {
			t.Errorf("%d", exitOf(r))
		}
	})
}

// The end of a run unblocks its writers.
func TestInteractiveRunEnds(t *testing.T) {
	b := newBench(t)
	run := b.start(talk("echo up; exec sleep 1000"))
	b.waitFor(run.ID, "up")
	in := b.stdin(run.ID)
	var sent sync.WaitGroup
	sent.Go(func() {
		for range 10 { // more than the pipe and the agent can buffer
			if _, err := in.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	if err := b.Cancel(b.context(), run.ID); err != nil {
		t.Fatal(err)
	}
	sent.Wait()
	wantReason(t, in, "run_ended")
	if _, err := in.Write([]byte("x")); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("%v", err)
	}
	b.follow(run.ID)
}

// Input of a queued run can be opened and written to.
func TestInteractiveInQueue(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.Concurrency = 1 })
	first := b.start(talk("cat"))
	second, third := b.start(talk("cat")), b.start(talk("cat"))
	early, never := b.stdin(second.ID), b.stdin(third.ID)
	wrote := make(chan error, 1)
	go func() {
		_, err := early.Write([]byte("early"))
		wrote <- err
	}()
	if err := b.Cancel(b.context(), third.ID); err != nil {
		t.Fatal(err)
	}
	wantReason(t, never, "run_ended")
	if err := b.stdin(first.ID).End(); err != nil {
		t.Error(err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	if err := early.End(); err != nil {
		t.Error(err)
	}
	if r := b.follow(second.ID); r.stdout != "early" {
		t.Errorf("%q", r.stdout)
	}
}

func TestInteractiveRefusals(t *testing.T) {
	b := newBench(t)
	plain := b.start(shell("sleep 1000"))
	fed := shell("cat")
	fed.Stdin = "given"
	r := b.run(fed)
	if r.stdout != "given" {
		t.Errorf("%q", r.stdout)
	}
	if _, err := b.Stdin(b.context(), plain.ID); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("of a run that is not interactive: %v", err)
	}
	if _, err := b.Stdin(b.context(), "none"); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("of no run: %v", err)
	}
	stranger := b.service.As(belljar.Caller{ID: "x"}).Runs()
	if _, err := stranger.Stdin(b.context(), plain.ID); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("of another's run: %v", err)
	}
	large := talk("cat", func(l *stdin.Limits) { l.MaxFrameBytes = 1 << 30 })
	if _, err := b.Start(b.context(), large); belljar.CodeOf(err) != belljar.CodePolicyDenied {
		t.Errorf("%v", err)
	}
	read := talk("cat")
	read.Input = strings.NewReader("from a reader")
	if r := b.run(read); r.stdout != "from a reader" {
		t.Errorf("%q", r.stdout)
	}
	closed := newBench(t, func(o *service.Options) {
		o.Policy = service.DefaultPolicy()
		o.Policy.NoInteractive = true
	})
	if _, err := closed.Start(closed.context(), talk("cat")); belljar.CodeOf(err) != belljar.CodePolicyDenied {
		t.Errorf("%v", err)
	}
}

// The same in a session.
func TestInteractiveInSession(t *testing.T) {
	b := newBench(t)
	s := b.open()
	req := in(s, "cat > file; wc -c < file")
	req.Interactive = true
	run := b.start(req)
	in := b.stdin(run.ID)
	b.say(in, strings.Repeat("x", 60_000))
	if err := in.End(); err != nil {
		t.Error(err)
	}
	if r := b.follow(run.ID); strings.TrimSpace(r.stdout) != "60000" {
		t.Errorf("%q", r.stdout)
	}
}
