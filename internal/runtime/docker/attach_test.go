package docker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/belljar/belljar/internal/runtime"
)

func frame(kind byte, text string) string {
	return string([]byte{kind, 0, 0, 0, byte(len(text) >> 24), byte(len(text) >> 16), byte(len(text) >> 8), byte(len(text))}) + text
}

func TestDemux(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	for name, c := range map[string]struct{ in, out, err, stderr string }{
		"empty":          {},
		"stdout":         {in: frame(1, "one") + frame(1, "") + frame(1, "two"), out: "onetwo"},
		"mixed":          {in: frame(1, "a") + frame(2, "oops\n") + frame(1, "b") + frame(2, ""), out: "ab", stderr: "oops"},
		"long":           {in: frame(1, long), out: long},
		"stderr, long":   {in: frame(2, long), stderr: long[:maxTail]},
		"engine's error": {in: frame(1, "a") + frame(3, "disk is full\n"), out: "a", err: "the engine reports: disk is full"},
		"cut header":     {in: frame(1, "a") + "\x01\x00", out: "a", err: io.ErrUnexpectedEOF.Error()},
		"cut text":       {in: frame(1, "abcdef")[:10], out: "ab", err: io.ErrUnexpectedEOF.Error()},
		"unknown stream": {in: frame(4, "x"), err: errFrame.Error()},
		"no frames":      {in: "hello, I am a terminal", err: errFrame.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			for _, wrap := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.DataErrReader, iotest.HalfReader} {
				d := &demux{r: wrap(strings.NewReader(c.in)), stderr: &tail{}}
				got, err := io.ReadAll(d)
				if string(got) != c.out || (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err[:min(len(c.err), 17)]) {
					t.Errorf("%.50q, %v; want %.50q, %q", got, err, c.out, c.err)
				}
				if s := d.stderr.String(); s != c.stderr {
					t.Errorf("stderr %.50q", s)
				}
			}
		})
	}
}

func TestTailIsOneLine(t *testing.T) {
	var s tail
	s.add([]byte("a\x1b[31m\nb\xff\r\n"))
	if got := s.String(); got != "a [31m b?" {
		t.Errorf("%q", got)
	}
}

func FuzzDemux(f *testing.F) {
	f.Add([]byte(frame(1, "text")+frame(2, "error")), 3)
	f.Add([]byte(frame(3, "said")), 1)
	f.Add([]byte("\x01\x00\x00\x00\xff\xff\xff\xff1"), 7)
	f.Fuzz(func(t *testing.T, in []byte, piece int) {
		d := &demux{r: bytes.NewReader(in), stderr: &tail{}}
		b := make([]byte, 1+uint(piece)%4096)
		total := 0
		for {
			n, err := d.Read(b)
			if total += n; err != nil {
				if errors.Is(err, io.EOF) && d.left != 0 {
					t.Error("a frame that is cut ends well")
				}
				break
			}
		}
		if total > len(in) || len(d.stderr.text) > maxTail {
			t.Errorf("%d bytes from %d, %d kept", total, len(in), len(d.stderr.text))
		}
	})
}

// A caller that waits for a sandbox of an unreachable engine gets both that error and the reason why the wait ended.
func TestDialWithoutEngine(t *testing.T) {
	over := errors.New("the time is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	s := (&Runtime{}).sandbox("a", "b", true, 1)
	_, err := s.Dial(ctx)
	var step *runtime.StepError
	if !errors.Is(err, over) || !errors.As(err, &step) || step.Step != stepEngine || step.Hint == "" || errors.Is(step, over) {
		t.Errorf("%v", err)
	}
}
