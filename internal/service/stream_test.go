//go:build linux

package service_test

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/belljar/belljar"
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
