//go:build linux

package service_test

import (
	"iter"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service"
)

// A log starts at the requested frame, live or ended. One that ends in front of it yields the end; after the end there is nothing.
func TestFramesBeyondTheLog(t *testing.T) {
	b := newBench(t)
	run := b.start(talk("echo ready; for i in 1 2 3; do read line; echo $line; done"))
	b.waitFor(run.ID, "ready")
	live, err := b.Get(b.context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	ahead, beyond := b.Frames(b.context(), run.ID, live.LastSeq+3), b.Frames(b.context(), run.ID, 1000) // positions from here on
	in := b.stdin(run.ID)
	for _, line := range []string{"one", "two", "three"} {
		b.say(in, line+"\n")
		b.waitFor(run.ID, line)
	}
	last := b.follow(run.ID).LastSeq
	for from, frames := range map[uint64]iter.Seq2[belljar.Frame, error]{live.LastSeq + 3: ahead, last: beyond} {
		next := from
		for f, err := range frames {
			if err != nil || f.Seq != next || f.Event == belljar.EventEnd != (f.Seq == last) {
				t.Errorf("live, from %d of %d: %+v, %v", from, last, f, err)
			}
			next++
		}
		if next != last+1 {
			t.Errorf("live, from %d: frames up to %d, want %d", from, next-1, last)
		}
	}
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
