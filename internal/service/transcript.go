package service

import (
	"fmt"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/logbook"
)

// Why output is missing from a log, as its mark says.
const (
	cutCap    = "log_cap"
	cutFull   = "disk_full"
	cutFailed = "log_failed"

	cutDamaged = "log_damaged" // it was there
)

// transcript turns a command's output into the frames of its log: text stays text though its characters come in
// pieces, and what is over the cap, or finds no room on the disk, is dropped behind one mark. The command does not notice.
type transcript struct {
	log    logbook.Log
	room   int64  // bytes that the log still takes
	kept   int64  // bytes in the log
	cut    bool   // nothing more is kept
	reason string // of that
	marked bool   // the mark is there

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
		t.put(t.rest(t.frames(nil, s, b)))
		if !t.cut {
			t.cut, t.reason = true, cutCap
			t.mark()
		}
		return nil
	}
	if n := incomplete(b); n > 0 {
		t.tails[s] = append([]byte(nil), b[len(b)-n:]...)
		b = b[:len(b)-n]
	}
	t.put(t.frames(nil, s, b))
	return nil
}

// end gives out what was held back.
func (t *transcript) end() {
	if t.cut {
		t.mark()
		return
	}
	t.put(t.rest(nil))
}

// put keeps frames. From where that fails nothing more is kept.
func (t *transcript) put(frames []belljar.Frame) {
	if len(frames) == 0 || t.cut {
		return
	}
	if err := t.log.Append(frames...); err != nil {
		t.cut, t.reason = true, cutFailed
		if full(err) {
			t.reason = cutFull
		}
		t.mark()
		return
	}
	for _, f := range frames {
		t.kept += int64(len(f.Output))
	}
}

// mark says in the log that output is missing behind it. Where there is no room even for that, the end tries again.
func (t *transcript) mark() {
	if !t.marked {
		t.marked = t.log.Append(belljar.Frame{Type: belljar.FrameTruncated, Reason: t.reason}) == nil
	}
}

// warnings says what was dropped, as far as the outcome does not.
func (t *transcript) warnings(e ending, l belljar.Limits) []string {
	switch {
	case !t.cut:
	case t.reason == cutFull:
		return []string{"output was dropped because the server's disk is full"}
	case t.reason == cutFailed:
		return []string{"output was dropped because the log could not be written"}
	case e.exit == nil || e.exit.Dropped == 0:
		return []string{fmt.Sprintf("output beyond %d bytes was dropped", l.LogBytes)}
	}
	return nil
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
