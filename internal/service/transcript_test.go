package service

import (
	"bytes"
	"context"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/logbook/memory"
)

type chunk struct {
	stream wire.Stream
	bytes  []byte
}

// transcribe puts chunks through a transcript with room bytes and returns it with its frames.
func transcribe(t *rapid.T, room int64, chunks []chunk) (*transcript, []belljar.Frame) {
	log := &memory.Log{}
	out := &transcript{log: log, room: room}
	for _, c := range chunks {
		if err := out.write(0, c.stream, c.bytes); err != nil {
			t.Fatal(err)
		}
	}
	out.end()
	if err := log.Seal(); err != nil {
		t.Fatal(err)
	}
	var frames []belljar.Frame
	for f, err := range log.Read(context.Background(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, f)
	}
	return out, frames
}

// cutUp draws how the bytes of each stream come in chunks, mixed.
func cutUp(t *rapid.T, streams map[wire.Stream][]byte) []chunk {
	var chunks []chunk
	for len(streams[wire.Stdout])+len(streams[wire.Stderr]) > 0 {
		s := rapid.SampledFrom([]wire.Stream{wire.Stdout, wire.Stderr}).Draw(t, "stream")
		rest := streams[s]
		if len(rest) == 0 {
			continue
		}
		n := rapid.OneOf(rapid.IntRange(1, min(5, len(rest))), rapid.IntRange(1, len(rest))).Draw(t, "length")
		chunks = append(chunks, chunk{s, rest[:n]})
		streams[s] = rest[n:]
	}
	return chunks
}

func streamOf(f belljar.Frame) wire.Stream {
	if f.Type == belljar.FrameStderr {
		return wire.Stderr
	}
	return wire.Stdout
}

// Text stays text however it is cut up, no byte is lost or moved, and no frame is too large.
func TestTranscriptOfText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) []byte {
			s := rapid.StringOf(rapid.RuneFrom([]rune("a\nüß€漢😀\x00\ufffd"))).Draw(t, name)
			return bytes.Repeat([]byte(s), rapid.SampledFrom([]int{1, 1, 3000}).Draw(t, "times "+name))
		}
		want := map[wire.Stream][]byte{wire.Stdout: text("stdout"), wire.Stderr: text("stderr")}
		chunks := cutUp(t, map[wire.Stream][]byte{wire.Stdout: want[wire.Stdout], wire.Stderr: want[wire.Stderr]})
		_, frames := transcribe(t, 1<<30, chunks)
		got := map[wire.Stream][]byte{}
		for _, f := range frames {
			if len(f.Output) == 0 || len(f.Output) > belljar.MaxFrameBytes || !utf8.Valid(f.Output) {
				t.Fatalf("frame %d: %d bytes, text %t", f.Seq, len(f.Output), utf8.Valid(f.Output))
			}
			got[streamOf(f)] = append(got[streamOf(f)], f.Output...)
		}
		for s, b := range want {
			if !bytes.Equal(got[s], b) {
				t.Fatalf("stream %d: %q, want %q", s, got[s], b)
			}
		}
	})
}

// Of any bytes exactly those within the cap are kept, each stream's in order, and the mark comes once and last.
func TestTranscriptCap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.ByteRange(0xbe, 0xf4), 0, 200)
		chunks := cutUp(t, map[wire.Stream][]byte{wire.Stdout: data.Draw(t, "stdout"), wire.Stderr: data.Draw(t, "stderr")})
		room := rapid.Int64Range(1, 300).Draw(t, "room")
		want := map[wire.Stream][]byte{}
		left, cut := room, false
		for _, c := range chunks {
			n := min(left, int64(len(c.bytes)))
			cut = cut || n < int64(len(c.bytes))
			if !cut || n > 0 {
				want[c.stream] = append(want[c.stream], c.bytes[:n]...)
			}
			left -= n
		}
		out, frames := transcribe(t, room, chunks)
		got := map[wire.Stream][]byte{}
		marks := 0
		for i, f := range frames {
			if f.Type == belljar.FrameTruncated {
				if marks++; i != len(frames)-1 {
					t.Fatalf("the mark is frame %d of %d", i+1, len(frames))
				}
				continue
			}
			got[streamOf(f)] = append(got[streamOf(f)], f.Output...)
		}
		for _, s := range []wire.Stream{wire.Stdout, wire.Stderr} {
			if !bytes.Equal(got[s], want[s]) {
				t.Fatalf("stream %d: %q, want %q", s, got[s], want[s])
			}
		}
		if (marks == 1) != cut || out.cut != cut || marks > 1 {
			t.Fatalf("%d marks, cut %t, want %t", marks, out.cut, cut)
		}
		if kept := int64(len(got[wire.Stdout]) + len(got[wire.Stderr])); kept != out.kept || kept > room {
			t.Fatalf("%d bytes kept, %d counted, room %d", kept, out.kept, room)
		}
	})
}

func TestIncomplete(t *testing.T) {
	for in, want := range map[string]int{
		"": 0, "a": 0, "é": 0, "a\xc3": 1, "\xe2\x82": 2, "\xf0\x9f\x98": 3, "\xf0\x9f\x98\x80": 0, "\x80\x80\x80\x80": 0, "\xff": 0,
		"\xc3a": 0, "\xe2": 1, "\xed\xa0": 0, "€\xe2": 1, "\xc0": 0,
	} {
		if got := incomplete([]byte(in)); got != want {
			t.Errorf("incomplete(%q) = %d, want %d", in, got, want)
		}
	}
}
