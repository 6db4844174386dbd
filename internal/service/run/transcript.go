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

// The reasons in a log's mark for missing output.
const (
	cutCap    = "log_cap"
	cutQuota  = "log_quota"
	cutFull   = "disk_full"
	cutFailed = "log_failed"

	cutDamaged = "log_damaged" // the output was recorded, but cannot be read
)

// transcript converts a command's output into the frames of its log. It joins characters that arrive in pieces. It replaces each byte
// of a secret by an asterisk, so that the length of the output stays. It drops output over the cap, or for which the disk has no room,
// and appends one mark instead. The command is not affected.
//
// Unless the log was cut, its output is always a prefix of the command's output, in the order in which the agent counts it, so that its
// length is the position where another process continues.
type transcript struct {
	log      logbook.Log
	room     int64                // bytes that the log still accepts
	allowed  *admission.Allowance // on the owner's quota
	kept     int64                // bytes in the log
	cut      bool                 // drop all further output
	reason   string               // of the cut
	marked   bool                 // the mark is in the log
	step     string               // the step that produces the output: [belljar.StepBuild], or "" for the program
	output   []byte               // kept output of a step
	onOutput func()               // called for each output, kept or not; may be nil
	onCut    func(reason string)  // called before the mark is made; may be nil
	hide     *redact.Patterns     // values to redact; nil for none

	// Output that is not in the log yet: the beginning of an incomplete character, and then bytes that the stream holds back because
	// they may begin a secret. It is always the last part of the output so far.
	tail     []byte
	tailOf   wire.Stream
	redacted [4]*redact.Stream // by stream
}

// write accepts output, and returns the position up to which it is in the log or dropped. It is an [agent.Deliver].
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
		frames = t.pass(frames) // keep the order of the streams
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

// stream returns the redacting stream of s; nil if nothing is redacted.
func (t *transcript) stream(s wire.Stream) *redact.Stream {
	if t.hide == nil || int(s) >= len(t.redacted) {
		return nil
	}
	if t.redacted[s] == nil {
		t.redacted[s] = t.hide.Stream()
	}
	return t.redacted[s]
}

// held returns how many bytes are not in the log yet.
func (t *transcript) held() int64 { return int64(len(t.tail) + t.stream(t.tailOf).Held()) }

// pass appends the bytes that are not in the log yet to frames.
func (t *transcript) pass(frames []belljar.Frame) []belljar.Frame {
	frames = t.frames(frames, t.tailOf, append(t.tail, t.stream(t.tailOf).Flush()...))
	t.tail, t.tailOf = nil, 0
	return frames
}

// rewind discards the bytes that are not in the log yet: another stream to the agent will repeat them.
func (t *transcript) rewind() {
	t.room += t.held()
	t.stream(t.tailOf).Rewind(len(t.tail))
	t.tail, t.tailOf = nil, 0
}

// end writes the bytes that are not in the log yet.
func (t *transcript) end() {
	if t.cut {
		t.mark()
		return
	}
	t.put(t.pass(nil))
}

// put stores frames. After a failure it drops all further frames.
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

// truncate drops all further output and marks the reason.
func (t *transcript) truncate(reason string) {
	t.cut, t.reason = true, reason
	if t.onCut != nil {
		t.onCut(reason)
	}
	t.mark()
}

// mark appends the mark for missing output to the log. If that fails, the end retries.
func (t *transcript) mark() {
	if !t.marked && t.step == "" { // the end of a step reports it
		t.marked = t.log.Append(belljar.Frame{Type: belljar.FrameTruncated, Reason: t.reason}) == nil
	}
}

// warnings returns warnings about dropped output, unless the outcome reports it.
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

// frames appends b to frames, in pieces of at most [belljar.MaxFrameBytes] that do not split characters.
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
