//go:build linux

package service_test

import (
	"io"
	"iter"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service"
)

// silence is a reader that blocks until it is closed.
type silence struct{ closed chan struct{} }

func newSilence() *silence { return &silence{make(chan struct{})} }

func (s *silence) Read([]byte) (int, error) {
	<-s.closed
	return 0, io.EOF
}

func (s *silence) Close() { close(s.closed) }

// A frame is readable immediately, even while the command waits: here for the response to it.
func TestFramesComeAtOnce(t *testing.T) {
	b := newBench(t)
	r, w := io.Pipe()
	req := shell(`for q in one two three; do echo $q; read answer; [ "$answer" = $q ] || exit 1; done`)
	req.Input = r
	run := b.start(req)
	for _, q := range []string{"one", "two", "three"} {
		b.waitFor(run.ID, q+"\n")
		if _, err := io.WriteString(w, q+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	b.follow(run.ID).want(t, belljar.PhaseCompleted, 0, "")
}

func TestLogCap(t *testing.T) {
	b := newBench(t)
	req := shell("head -c 200000 /dev/zero | tr '\\0' x; echo error >&2")
	req.Resources.LogBytes = 100_000
	r := b.run(req)
	r.want(t, belljar.PhaseCompleted, 0, "")
	if len(r.stdout)+len(r.stderr) != 100_000 || r.ResourceUsage.LogBytes != 100_000 || !r.Truncated {
		t.Errorf("%d and %d bytes, usage says %d, truncated %t", len(r.stdout), len(r.stderr), r.ResourceUsage.LogBytes, r.Truncated)
	}
	marks := 0
	for i, f := range r.frames {
		if f.Type == belljar.FrameTruncated {
			marks++
			if f.Reason != "log_cap" || i != len(r.frames)-2 {
				t.Errorf("mark %+v is frame %d of %d", f, i+1, len(r.frames))
			}
		}
	}
	if marks != 1 || len(r.Warnings) == 0 || !strings.Contains(r.Warnings[0], "100006 bytes") {
		t.Errorf("%d marks, warnings %q", marks, r.Warnings)
	}
}

// Output of exactly the cap is complete.
func TestLogCapExact(t *testing.T) {
	b := newBench(t)
	req := shell("head -c 100000 /dev/zero | tr '\\0' x")
	req.Resources.LogBytes = 100_000
	r := b.run(req)
	if len(r.stdout) != 100_000 || r.Truncated {
		t.Errorf("%d bytes, truncated %t", len(r.stdout), r.Truncated)
	}
	for _, f := range r.frames {
		if f.Type == belljar.FrameTruncated {
			t.Errorf("mark %+v", f)
		}
	}
}

// A character whose bytes are written one by one stays text.
func TestTextStaysText(t *testing.T) {
	b := newBench(t)
	r, w := io.Pipe()
	req := shell(`printf 'a\303'; read x; printf '\251b\n'; printf '\360\237'`)
	req.Input = r
	run := b.start(req)
	b.waitFor(run.ID, "a")
	if _, err := io.WriteString(w, "go\n"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	got := b.follow(run.ID)
	if got.stdout != "aéb\n\xf0\x9f" {
		t.Errorf("stdout %q", got.stdout)
	}
	for _, f := range got.frames[:len(got.frames)-2] {
		if !utf8.Valid(f.Output) {
			t.Errorf("frame %d is not text: %q", f.Seq, f.Output)
		}
	}
}

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
