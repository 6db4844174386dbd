package run

import (
	"fmt"
	"slices"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/char"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/secret/redact"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/outcome"
)

// Why output is missing from a log, as its mark says.
const (
	cutCap    = "log_cap"
	cutQuota  = "log_quota"
	cutFull   = "disk_full"
	cutFailed = "log_failed"

	cutDamaged = "log_damaged" // the output was recorded, but cannot be read now
)

// transcript turns a command's output into the frames of its log. Characters that come in pieces are put together. Secrets become as
// many asterisks as they have bytes, so that the length of the output stays. Output over the
// cap, or for which the disk has no room, is dropped, and one mark stands for it. The command does not notice.
//
// Unless the log was cut, the output in it is at all times the beginning of the command's, in the order in which the agent
// counts it, so that its length is the position where another process continues.
type transcript struct {
	log      logbook.Log
	room     int64                // bytes that the log still takes
	allowed  *admission.Allowance // of the owner's quota
	kept     int64                // bytes in the log
	cut      bool                 // nothing more is kept
	reason   string               // of that
	marked   bool                 // the mark is in the log
	step     string               // the step that prints: [belljar.StepBuild], or "" for the program
	output   []byte               // of a step, as far as it is kept
	onOutput func()               // called for each output, kept or not; may be nil
	hide     *redact.Patterns     // what the log does not show; nil for nothing

	// What is not in the log yet: the beginning of a character whose rest has not come, and then what the stream holds back that may be
	// the beginning of a secret. It is always the last bytes of the output so far.
	tail     []byte
	tailOf   wire.Stream
	redacted [4]*redact.Stream // by stream
}

// write takes output as it comes, and returns up to which position it is in the log, or dropped. It is an
// [agent.Deliver].
func (t *transcript) write(position int64, s wire.Stream, b []byte) (safe int64, err error) {
	if t.onOutput != nil {
		t.onOutput()
	}
	end := position + int64(len(b))
	if t.cut {
		return end, nil
	}
	over, why := int64(len(b)) > t.room, cutCap
	if over {
		b = b[:t.room]
	}
	if n := t.allowed.ReserveUpTo(int64(len(b))); n < int64(len(b)) {
		b, over, why = b[:n], true, cutQuota
	}
	t.room -= int64(len(b))
	var frames []belljar.Frame
	if t.tailOf != s {
		frames = t.pass(frames) // it would come after what it precedes
	}
	hidden := t.stream(s)
	b = hidden.Write(b)
	if len(t.tail) > 0 {
		b = append(t.tail, b...)
	}
	t.tail, t.tailOf = nil, s
	if over {
		t.put(t.frames(frames, s, append(slices.Clip(b), hidden.Flush()...)))
		if !t.cut {
			t.truncate(why)
		}
		return end, nil
	}
	if n := char.Unfinished(b); n > 0 {
		t.tail = append([]byte(nil), b[len(b)-n:]...)
		b = b[:len(b)-n]
	}
	t.put(t.frames(frames, s, b))
	return end - t.held(), nil
}

// stream returns the redacted stream of s; nil if nothing is hidden.
func (t *transcript) stream(s wire.Stream) *redact.Stream {
	if t.hide == nil || int(s) >= len(t.redacted) {
		return nil
	}
	if t.redacted[s] == nil {
		t.redacted[s] = t.hide.Stream()
	}
	return t.redacted[s]
}

// held is how many bytes are not in the log yet.
func (t *transcript) held() int64 { return int64(len(t.tail) + t.stream(t.tailOf).Held()) }

// pass adds what is not in the log yet to frames.
func (t *transcript) pass(frames []belljar.Frame) []belljar.Frame {
	frames = t.frames(frames, t.tailOf, append(t.tail, t.stream(t.tailOf).Flush()...))
	t.tail, t.tailOf = nil, 0
	return frames
}

// rewind forgets what is not in the log yet: it comes again over another stream to the agent.
func (t *transcript) rewind() {
	t.room += t.held()
	t.stream(t.tailOf).Rewind(len(t.tail))
	t.tail, t.tailOf = nil, 0
}

// end writes what is not in the log yet.
func (t *transcript) end() {
	if t.cut {
		t.mark()
		return
	}
	t.put(t.pass(nil))
}

// put keeps frames. After a failure nothing more is kept.
func (t *transcript) put(frames []belljar.Frame) {
	if len(frames) == 0 || t.cut {
		return
	}
	if err := t.log.Append(frames...); err != nil {
		reason := cutFailed
		if fault.Full(err) {
			reason = cutFull
		}
		t.truncate(reason)
		return
	}
	t.allowed.SetTo(t.log.Size())
	for _, f := range frames {
		t.kept += int64(len(f.Output))
		if t.step != "" {
			t.output = append(t.output, f.Output...)
		}
	}
}

// truncate drops all further output and marks why.
func (t *transcript) truncate(reason string) {
	t.cut, t.reason = true, reason
	t.mark()
}

// mark puts a mark for the missing output into the log. If that fails, the end tries again.
func (t *transcript) mark() {
	if !t.marked && t.step == "" { // the end of a step reports it
		t.marked = t.log.Append(belljar.Frame{Type: belljar.FrameTruncated, Reason: t.reason}) == nil
	}
}

// warnings reports what was dropped, unless the outcome does.
func (t *transcript) warnings(e outcome.Ending, l belljar.Limits) []string {
	switch {
	case !t.cut:
	case t.reason == cutFull:
		return []string{"output was dropped because the server's disk is full"}
	case t.reason == cutQuota:
		return []string{"output was dropped because its owner's quota of log bytes is used up"}
	case t.reason == cutDamaged:
		return []string{"output was lost with a part of the log"}
	case t.reason == cutFailed:
		return []string{"output was dropped because the log could not be written"}
	case e.Exit == nil || e.Exit.Dropped == 0:
		return []string{fmt.Sprintf("output beyond %d bytes was dropped", l.LogBytes)}
	}
	return nil
}

// frames adds b to frames, in pieces of at most [belljar.MaxFrameBytes] that part no character.
func (t *transcript) frames(frames []belljar.Frame, s wire.Stream, b []byte) []belljar.Frame {
	kind := belljar.FrameStdout
	switch {
	case s == wire.Stderr || t.step != "":
		kind = belljar.FrameStderr
	case s == wire.Result:
		kind = belljar.FrameResult
	}
	for len(b) > 0 {
		n := min(len(b), belljar.MaxFrameBytes)
		if n < len(b) {
			n -= char.Unfinished(b[:n])
		}
		frames = append(frames, belljar.Frame{Type: kind, Step: t.step, Output: b[:n]})
		b = b[n:]
	}
	return frames
}
