package belljar_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
)

// reports is a run with these frames as its log.
type reports struct {
	belljar.Runs
	frames []belljar.Frame
	err    error
}

func (r reports) Start(context.Context, belljar.RunRequest) (belljar.Run, error) {
	return belljar.Run{ID: "r", Phase: belljar.PhaseQueued}, nil
}

func (r reports) Get(_ context.Context, id string) (belljar.Run, error) {
	return belljar.Run{ID: id, Phase: belljar.PhaseCompleted}, nil
}

func (r reports) Frames(context.Context, string, uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		for _, f := range r.frames {
			if !yield(f, nil) {
				return
			}
		}
		if r.err != nil {
			yield(belljar.Frame{}, r.err)
		}
	}
}

// inFrames splits text into stdout frames of n bytes.
func inFrames(text string, n int) (frames []belljar.Frame) {
	for len(text) > 0 {
		k := min(n, len(text))
		frames = append(frames, belljar.Frame{Type: belljar.FrameStdout, Output: []byte(text[:k])})
		text = text[k:]
	}
	return frames
}

func TestCollect(t *testing.T) {
	const mib = belljar.InlineBytes
	euro := strings.Repeat("€", mib) // 3 bytes each, so that the gap splits characters
	tests := map[string]struct {
		text    string
		omitted int64
	}{
		"nothing":            {"", 0},
		"short":              {"hello\n", 0},
		"just fits":          {strings.Repeat("a", mib), 0},
		"one byte more":      {strings.Repeat("a", mib/2) + "X" + strings.Repeat("b", mib/2), 1},
		"far too long":       {strings.Repeat("abcdefg", mib), 6 * mib},
		"characters are cut": {euro, int64(len(euro)) - 2*(mib/2/3*3)},
	}
	for name, test := range tests {
		for _, n := range []int{7, 4093, belljar.MaxFrameBytes} {
			if n == 7 && len(test.text) > 2*mib {
				continue
			}
			_, out, err := belljar.Collect(t.Context(), reports{frames: inFrames(test.text, n)}, "r")
			if err != nil {
				t.Fatal(err)
			}
			if out.StdoutOmittedBytes != test.omitted || out.StdoutTruncated != (test.omitted > 0) || out.StdoutEncoding != "utf8" {
				t.Errorf("%s in %d: omitted %d, truncated %v, %s, want %d", name, n, out.StdoutOmittedBytes, out.StdoutTruncated, out.StdoutEncoding, test.omitted)
			}
			at := out.StdoutOmittedAt
			if want := test.text[:at] + test.text[at+out.StdoutOmittedBytes:]; out.Stdout != want {
				t.Errorf("%s in %d: what is kept is not the stream without the gap", name, n)
			}
			if out.Stderr != "" || out.StderrEncoding != "utf8" || out.StderrTruncated {
				t.Errorf("%s: stderr %q", name, out.Stderr)
			}
		}
	}
}

func TestCollectBinary(t *testing.T) {
	raw := bytes.Repeat([]byte{0xff, 0, 'a'}, belljar.InlineBytes)
	_, out, err := belljar.Collect(t.Context(), reports{frames: inFrames(string(raw), 40000)}, "r")
	if err != nil {
		t.Fatal(err)
	}
	got, err := base64.StdEncoding.DecodeString(out.Stdout)
	if err != nil || out.StdoutEncoding != "base64" || !out.StdoutTruncated {
		t.Fatalf("%s, truncated %v: %v", out.StdoutEncoding, out.StdoutTruncated, err)
	}
	at := out.StdoutOmittedAt
	if want := append(bytes.Clone(raw[:at]), raw[at+out.StdoutOmittedBytes:]...); !bytes.Equal(got, want) {
		t.Error("what is kept is not the stream without the gap")
	}
}

func TestCollectReportsCapAndFailure(t *testing.T) {
	frames := append(inFrames("x", 1), belljar.Frame{Type: belljar.FrameTruncated, Reason: "log_cap"})
	_, out, err := belljar.Collect(t.Context(), reports{frames: frames}, "r")
	if err != nil || !out.StdoutTruncated || !out.StderrTruncated || out.Stdout != "x" {
		t.Errorf("%+v, %v", out, err)
	}
	if _, _, err := belljar.Collect(t.Context(), reports{frames: frames, err: context.DeadlineExceeded}, "r"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// The cap of a log may split a character. The rest is text nevertheless.
func TestCollectCappedInACharacter(t *testing.T) {
	long := strings.Repeat("€", belljar.InlineBytes)
	for _, test := range []struct{ whole, part string }{
		{"€€€", "\xe2"}, {"€€€", "\xe2\x82"}, {"", "\xf0\x9f\x98"}, {"€€€", ""}, {long, "\xe2"}, {long, ""},
	} {
		frames := append(inFrames(test.whole+test.part, belljar.MaxFrameBytes), belljar.Frame{Type: belljar.FrameTruncated, Reason: "log_cap"})
		_, out, err := belljar.Collect(t.Context(), reports{frames: frames}, "r")
		at := out.StdoutOmittedAt
		if want := test.whole[:at] + test.whole[at+out.StdoutOmittedBytes:]; err != nil || out.StdoutEncoding != "utf8" || out.Stdout != want {
			t.Errorf("%d bytes and %q: %d bytes, %s, %v", len(test.whole), test.part, len(out.Stdout), out.StdoutEncoding, err)
		}
	}
	for _, binary := range []string{"€\xff\xe2", "€\x82"} {
		frames := append(inFrames(binary, 7), belljar.Frame{Type: belljar.FrameTruncated, Reason: "log_cap"})
		if _, out, err := belljar.Collect(t.Context(), reports{frames: frames}, "r"); err != nil || out.Stdout != base64.StdEncoding.EncodeToString([]byte(binary)) {
			t.Errorf("%q: %q, %v", binary, out.Stdout, err)
		}
	}
}

// A caller that cancels the wait for a run must be able to cancel the run.
func TestFinishGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	run, out, err := belljar.Finish(ctx, reports{err: context.Canceled}, belljar.RunRequest{}, time.Minute)
	if run.ID != "r" || out != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %+v, %v", run, out, err)
	}
}
