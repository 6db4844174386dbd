//go:build linux

package service_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
)

func TestWatermark(t *testing.T) {
	var free atomic.Uint64
	var fault error
	free.Store(100 << 20)
	b := newBench(t, func(o *service.Options) {
		o.MinFreeBytes = 64 << 20
		o.FreeBytes = func() (uint64, error) { return free.Load(), fault }
	})
	first := b.start(shell("echo begun; read x; echo on"))
	free.Store(63 << 20)
	_, err := b.Start(t.Context(), shell("true"))
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeDiskFull || e.Details["free_bytes"] != uint64(63<<20) || e.Hint == "" {
		t.Errorf("%+v", err)
	}
	if r := b.follow(first.ID); !strings.HasSuffix(r.stdout, "on\n") {
		t.Errorf("the run that was under way printed %q", r.stdout)
	}
	fault = errors.New("no such disk")
	if _, err := b.Start(t.Context(), shell("true")); belljar.CodeOf(err) != belljar.CodeInternal {
		t.Errorf("when it cannot be found out: %v", err)
	}
}

func TestFewFreeFiles(t *testing.T) {
	free, all := uint64(10), uint64(1000)
	var fault error
	b := newBench(t, func(o *service.Options) { o.FreeFiles = func() (uint64, uint64, error) { return free, all, fault } })
	b.run(shell("true")).want(t, belljar.PhaseCompleted, 0, "")
	free = 9
	_, err := b.Start(t.Context(), shell("true"))
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeDiskFull || e.Details["free_files"] != uint64(9) || !strings.Contains(e.Hint, "df -i") {
		t.Errorf("%+v", err)
	}
	fault = errors.New("no such disk")
	if _, err := b.Start(t.Context(), shell("true")); belljar.CodeOf(err) != belljar.CodeInternal {
		t.Errorf("when it cannot be found out: %v", err)
	}
	free, all, fault = 0, 0, nil // a file system without such a limit
	b.run(shell("true")).want(t, belljar.PhaseCompleted, 0, "")
}

func TestFullAtTheStart(t *testing.T) {
	kept := &records{insert: func() error { return store.ErrFull }}
	book := &tightBook{}
	var o service.Options
	b := newBench(t, recorded(kept), tight(book), parts(&o))
	if _, err := b.Start(t.Context(), shell("true")); belljar.CodeOf(err) != belljar.CodeDiskFull {
		t.Errorf("%v", err)
	}
	kept.insert = nil
	if me, err := b.service.As(service.Local()).Node().Me(t.Context()); err != nil || me.Used.ConcurrentRuns != 0 {
		t.Errorf("a run that was refused holds a slot: %+v, %v", me.Used, err)
	}
	b.run(shell("true")).want(t, belljar.PhaseCompleted, 0, "")
}

// Output that does not fit is dropped after a mark, and the command continues.
func TestFullLog(t *testing.T) {
	for name, test := range map[string]struct {
		full func(belljar.Frame) bool
		mark bool
	}{
		"room for the mark": {func(f belljar.Frame) bool { return f.Type == belljar.FrameStdout }, true},
		"no room at all":    {func(belljar.Frame) bool { return true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			book := &tightBook{}
			var events diary
			b := newBench(t, tight(book), func(o *service.Options) { o.Events = &events })
			silent := newSilence()
			req := shell("echo one; read x; echo two; echo three; exit 4")
			req.Input = silent
			run := b.start(req)
			b.waitFor(run.ID, "one\n")
			book.fill(test.full)
			silent.Close()
			r := b.follow(run.ID)
			r.want(t, belljar.PhaseFailed, 4, belljar.ReasonNonZeroExit)
			marks := 0
			for _, f := range r.frames {
				if f.Type == belljar.FrameTruncated && f.Reason == "disk_full" {
					marks++
				}
			}
			if r.stdout != "one\n" || !r.Truncated || marks == 1 != test.mark {
				t.Errorf("printed %q, truncated %t, %d marks", r.stdout, r.Truncated, marks)
			}
			if !strings.Contains(strings.Join(r.Warnings, "\n"), "disk is full") {
				t.Errorf("warnings %q", r.Warnings)
			}
			if got := events.named(event.LogTruncated); len(got) != 1 || got[0].Reason != "disk_full" {
				t.Errorf("events: %+v", got)
			}
			if r.ResourceUsage.LogBytes != 4 {
				t.Errorf("%d bytes in the log", r.ResourceUsage.LogBytes)
			}
		})
	}
}

// A log that is full from the start does not stop a run. The run has a warning.
func TestFullLogFromTheStart(t *testing.T) {
	book := &tightBook{full: func(belljar.Frame) bool { return true }}
	b := newBench(t, tight(book))
	r := b.run(shell("exit 3"))
	r.want(t, belljar.PhaseFailed, 3, belljar.ReasonNonZeroExit)
	if len(r.frames) != 1 || !strings.Contains(strings.Join(r.Warnings, "\n"), "the log is incomplete") {
		t.Errorf("%d frames, warnings %q", len(r.frames), r.Warnings)
	}
}

// Recording the end of a run is retried until it succeeds.
func TestFullAtTheEnd(t *testing.T) {
	var attempts atomic.Int32
	failed, looked := make(chan struct{}), make(chan struct{})
	kept := &records{finish: func() error {
		switch attempts.Add(1) {
		case 1:
			return store.ErrFull
		case 2:
			close(failed)
			<-looked
			return store.ErrFull
		}
		return nil
	}}
	b := newBench(t, recorded(kept))
	run := b.start(shell("echo x"))
	<-failed
	if now, err := b.Get(t.Context(), run.ID); err != nil || now.Phase.Terminal() {
		t.Errorf("before it is on record: %s, %v", now.Phase, err)
	}
	close(looked)
	b.follow(run.ID).want(t, belljar.PhaseCompleted, 0, "")
	if attempts.Load() != 3 {
		t.Errorf("%d attempts", attempts.Load())
	}
}

// The next process repairs the record of an end that could never be recorded.
func TestFullForever(t *testing.T) {
	failed := make(chan struct{}, 1000)
	kept := &records{finish: func() error { failed <- struct{}{}; return store.ErrFull }}
	var o service.Options
	b := newBench(t, recorded(kept), parts(&o))
	run := b.start(shell("echo x; exit 5"))
	<-failed
	if err := b.service.Close(); err != nil {
		t.Fatal(err)
	}
	kept.finish = nil
	got, err := recovered(t, o).As(service.Local()).Runs().Get(t.Context(), run.ID)
	if err != nil || got.Phase != belljar.PhaseFailed || got.ExitCode == nil || *got.ExitCode != 5 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFullForArtifacts(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.Blobs.(*blobs).fail = blob.ErrFull })
	req := shell("echo x > f")
	req.CapturePatterns = []string{"f"}
	r := b.run(req)
	r.want(t, belljar.PhaseCompleted, 0, "")
	list, err := b.Artifacts.List(t.Context(), r.ID)
	if err != nil || len(list) != 1 || list[0].Skipped != "disk_full" || r.ResourceUsage.ArtifactBytes != 0 {
		t.Errorf("%+v, %v, %d bytes", list, err, r.ResourceUsage.ArtifactBytes)
	}
}

// A caller that waits for a run in a session gets an error if its end cannot be recorded soon.
func TestFullForADraft(t *testing.T) {
	var full atomic.Bool
	room := func() error {
		if full.Load() {
			return store.ErrFull
		}
		return nil
	}
	b := newBench(t, recorded(&records{insert: room, finish: room})) // a slow machine may record the draft before its end
	s, runs := b.open(), b.service.As(service.Local()).Runs()
	full.Store(true)
	run, out, err := belljar.Finish(b.context(), runs, in(s, "echo x"), 10*patience)
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeDiskFull || out != nil || !strings.HasPrefix(e.Message, "the run ") || e.Hint == "" {
		t.Fatalf("%+v, %v, %v", run, out, err)
	}
	full.Store(false)
	// The command has run: the error names its run, whose record follows.
	id, _ := e.Details["run_id"].(string)
	if log := b.follow(id); log.Phase != belljar.PhaseCompleted && log.Phase != belljar.PhaseKilled {
		t.Errorf("the run %q of the error: %+v", id, log)
	}
	if run, _, err := belljar.Finish(t.Context(), runs, in(s, "echo x"), patience); err != nil || run.Phase != belljar.PhaseCompleted {
		t.Errorf("with room again: %+v, %v", run, err)
	}
}
