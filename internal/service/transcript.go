package service

import (
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/logbook"
)

// transcript turns a command's output into the frames of its log: text stays text though its characters come in
// pieces, and what is over the cap is dropped behind one mark.
type transcript struct {
	log  logbook.Log
	room int64 // bytes that the log still takes
	kept int64 // bytes in the log
	cut  bool  // the mark is there

	tails [3][]byte // by stream: the beginning of a character whose rest has not come
}

// write takes output as it comes. It is an [agent.Process.Output] callback.
func (t *transcript) write(_ int64, s wire.Stream, b []byte) error {
	if t.cut {
		return nil
	}
	over := int64(len(b)) > t.room
	if over {
		b = b[:t.room]
	}
	t.room -= int64(len(b))
	if held := t.tails[s]; len(held) > 0 {
		b = append(held, b...)
		t.tails[s] = nil
	}
	if over {
		t.cut = true
		frames := t.frames(nil, s, b)
		frames = t.rest(frames)
		return t.log.Append(append(frames, belljar.Frame{Type: belljar.FrameTruncated, Reason: "log_cap"})...)
	}
	if n := incomplete(b); n > 0 {
		t.tails[s] = append([]byte(nil), b[len(b)-n:]...)
		b = b[:len(b)-n]
	}
	return t.log.Append(t.frames(nil, s, b)...)
}

// end gives out what was held back.
func (t *transcript) end() error {
	return t.log.Append(t.rest(nil)...)
}

// rest adds what is held back of all streams to frames.
func (t *transcript) rest(frames []belljar.Frame) []belljar.Frame {
	for _, s := range []wire.Stream{wire.Stdout, wire.Stderr} {
		frames = t.frames(frames, s, t.tails[s])
		t.tails[s] = nil
	}
	return frames
}

// frames adds b to frames, in pieces of at most [belljar.MaxFrameBytes] that part no character.
func (t *transcript) frames(frames []belljar.Frame, s wire.Stream, b []byte) []belljar.Frame {
	kind := belljar.FrameStdout
	if s == wire.Stderr {
		kind = belljar.FrameStderr
	}
	t.kept += int64(len(b))
	for len(b) > 0 {
		n := min(len(b), belljar.MaxFrameBytes)
		if n < len(b) {
			n -= incomplete(b[:n])
		}
		frames = append(frames, belljar.Frame{Type: kind, Output: b[:n]})
		b = b[n:]
	}
	return frames
}

// incomplete returns how many bytes at the end of b begin a character whose rest is missing: 0 to 3.
func incomplete(b []byte) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(b)); n++ {
		tail := b[len(b)-n:]
		if utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
