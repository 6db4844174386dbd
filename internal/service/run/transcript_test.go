package run

import (
	"bytes"
	"context"
	"fmt"
	"strings"
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

// transcribe writes chunks to a transcript with room bytes and returns it with its frames. All safe output is in the log,
// or was truncated.
func transcribe(t *rapid.T, room int64, chunks []chunk) (*transcript, []belljar.Frame) {
	log := &memory.Log{}
	out := &transcript{log: log, room: room}
	position := int64(0)
	for _, c := range chunks {
		safe, err := out.write(position, c.stream, c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		position += int64(len(c.bytes))
		switch held := position - safe; {
		case held < 0 || held >= utf8.UTFMax:
			t.Fatalf("%d bytes are held back", held)
		case !out.cut && safe != out.kept:
			t.Fatalf("%d bytes are safe, and %d in the log", safe, out.kept)
		}
	}
	out.end()
	return out, framesOf(t, log)
}

// framesOf seals a log and returns its frames.
func framesOf(t *rapid.T, log *memory.Log) []belljar.Frame {
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
	return frames
}

// cutUp draws how the bytes of each stream are split into chunks, mixed.
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

// Text of one stream stays text however it is split, no byte is lost or moved, and no frame is too large.
func TestTranscriptOfText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("a\nüß€漢😀\x00\ufffd"))).Draw(t, "text")
		want := bytes.Repeat([]byte(text), rapid.SampledFrom([]int{1, 1, 3000}).Draw(t, "times"))
		_, frames := transcribe(t, 1<<30, cutUp(t, map[wire.Stream][]byte{wire.Stdout: want}))
		var got []byte
		for _, f := range frames {
			if len(f.Output) == 0 || len(f.Output) > belljar.MaxFrameBytes || !utf8.Valid(f.Output) {
				t.Fatalf("frame %d: %d bytes, text %t", f.Seq, len(f.Output), utf8.Valid(f.Output))
			}
			got = append(got, f.Output...)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}

// Alternating output of two streams is in the log in that order, byte for byte: its length is a position.
func TestTranscriptKeepsTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.SampledFrom([]byte("a\xe2\x82\xac\xf0\x9f\x98\x80\xff")), 0, 60)
		chunks := cutUp(t, map[wire.Stream][]byte{wire.Stdout: data.Draw(t, "stdout"), wire.Stderr: data.Draw(t, "stderr")})
		_, frames := transcribe(t, 1<<30, chunks)
		if got, want := spell(frames), spellChunks(chunks); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}

// A process that dies at any point leaves a prefix of the output in the log. From its length on, the next processes
// complete it, byte for byte.
func TestTranscriptAcrossDeaths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.SampledFrom([]byte("a\xe2\x82\xac\xf0\x9f\x98\x80\xff")), 0, 60)
		chunks := cutUp(t, map[wire.Stream][]byte{wire.Stdout: data.Draw(t, "stdout"), wire.Stderr: data.Draw(t, "stderr")})
		whole, total := spellChunks(chunks), int64(0)
		for _, c := range chunks {
			total += int64(len(c.bytes))
		}
		room := rapid.Int64Range(1, 150).Draw(t, "room")
		var kept []belljar.Frame // left by dead processes
		acked := int64(0)
		for deaths := rapid.IntRange(0, 5).Draw(t, "deaths"); ; deaths-- {
			log := &memory.Log{}
			if err := log.Append(kept...); err != nil {
				t.Fatal(err)
			}
			past, err := readHistory(context.Background(), log)
			if err != nil {
				t.Fatal(err)
			}
			if past.cut == "" && past.kept < acked {
				t.Fatalf("%d bytes were called safe, and %d are there", acked, past.kept)
			}
			out := past.transcript(&transcript{log: log}, room)
			live := rapid.Int64Range(0, total).Draw(t, "life")
			if deaths == 0 {
				live = total
			}
			at := int64(0) // the agent starts at the log's end
			for _, c := range chunks {
				from, end := max(at, past.kept), at+int64(len(c.bytes))
				if end > from && from < live {
					safe, err := out.write(from, c.stream, c.bytes[from-at:])
					if err != nil {
						t.Fatal(err)
					}
					acked = max(acked, safe)
				}
				at = end
			}
			if deaths == 0 {
				out.end()
				frames := framesOf(t, log)
				want := whole[:min(len(whole), len("100 ")*int(min(room, total)))]
				if got := spell(frames); got != want {
					t.Fatalf("%q, want %q", got, want)
				}
				return
			}
			kept = framesOf(t, log)
		}
	})
}

// spell returns output byte by byte, each with its stream.
func spell(frames []belljar.Frame) string {
	var b strings.Builder
	for _, f := range frames {
		for _, c := range f.Output {
			fmt.Fprintf(&b, "%d%02x ", streamOf(f), c)
		}
	}
	return b.String()
}

func spellChunks(chunks []chunk) string {
	var b strings.Builder
	for _, part := range chunks {
		for _, c := range part.bytes {
			fmt.Fprintf(&b, "%d%02x ", part.stream, c)
		}
	}
	return b.String()
}

// Exactly the bytes within the cap are kept, in the order of each stream, and there is one mark, at the end.
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
