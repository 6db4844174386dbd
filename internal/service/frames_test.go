//go:build linux

package service_test

import (
	"iter"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service"
)

// A reader that asks for a frame beyond the log gets what comes next, at least the end. One that has read the end gets nothing.
func TestFramesBeyondTheLog(t *testing.T) {
	b := newBench(t)
	run := b.start(talk("echo ready; read line; echo $line"))
	b.waitFor(run.ID, "ready")
	next, stop := iter.Pull2(b.Frames(b.context(), run.ID, 1000)) // has its position from here on
	defer stop()
	in := b.stdin(run.ID)
	b.say(in, "go\n")
	var last uint64
	printed := ""
	for f, err, ok := next(); ok; f, err, ok = next() {
		if err != nil {
			t.Fatal(err)
		}
		printed += string(f.Output)
		last = f.Seq
	}
	if !strings.HasSuffix(printed, "go\n") || last == 0 {
		t.Errorf("live: printed %q, last seq %d", printed, last)
	}
	b.follow(run.ID)
	for from, want := range map[uint64]int{last: 1, last + 1: 0, last + 2: 1, 1000: 1, belljar.Tail: 1} {
		n := 0
		for f, err := range b.Frames(b.context(), run.ID, from) {
			if n++; err != nil || f.Event != belljar.EventEnd {
				t.Errorf("from %d of %d: %+v, %v", from, last, f, err)
			}
		}
		if n != want {
			t.Errorf("from %d of %d: %d frames, want %d", from, last, n, want)
		}
	}
}

// The files of a request are counted once they are in the sandbox.
func TestInlineFilesAreCounted(t *testing.T) {
	events := &diary{}
	b := newBench(t, func(o *service.Options) { o.Events = events })
	req := shell("cat a b")
	req.Files = []belljar.InlineFile{{Path: "a", Content: []byte("one")}, {Path: "b", Content: []byte("two!")}}
	b.run(req).want(t, belljar.PhaseCompleted, 0, "")
	b.run(shell("true")).want(t, belljar.PhaseCompleted, 0, "")
	if got := events.named(event.InlineFiles); len(got) != 1 || got[0].Files != 2 || got[0].Count != 7 || got[0].Kind != "inline" {
		t.Errorf("%+v", got)
	}
}
