package workspace

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/socket"
)

// maxLine is the longest line of a chat's program that is shown, in bytes.
const maxLine = 1 << 20

// errCut is that the rest of a program's output is not kept.
var errCut = errors.New("output is cut")

// transcript reads what a chat's program prints, as messages.
type transcript struct {
	next   func() (belljar.Frame, error, bool)
	stop   func()
	cancel context.CancelFunc
	out    lines
	err    lines

	past   []any // messages to begin with
	before int   // messages before those
	ended  bool  // there is nothing after the past
}

// transcript reads the past of a run, which for a fresh one is until its program runs, and is then ready for what comes. The log is
// read from its beginning, so that lines are whole.
func (x *chat) transcript(runID string, fromSeq int, fresh bool) (*transcript, error) {
	run, err := x.Engine.Runs().Get(x.r.Context(), runID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(x.r.Context()))
	next, stop := iter.Pull2(x.Engine.Runs().Frames(ctx, runID, 1))
	t := &transcript{next: next, stop: stop, cancel: cancel}
	if fresh {
		fromSeq = 1
	}
	var begin any // the last message that begins a conversation
	seen := 0
	for last := uint64(0); fresh && !t.ended || last < run.LastSeq; {
		f, err, ok := next()
		if err != nil || !ok {
			t.close()
			return nil, cmp.Or(err, error(socket.NotFound()))
		}
		last = f.Seq
		for _, m := range t.messages(f) {
			if seen++; fromSeq > 0 && seen >= fromSeq {
				t.past = append(t.past, m)
			}
			if begins(m) {
				begin = m
			}
		}
		t.ended = f.Event == belljar.EventEnd
		if t.ended && !fresh {
			t.close()
			return nil, socket.NotFound()
		}
		if fresh && f.Event == belljar.EventStart {
			break
		}
	}
	if t.before = seen - len(t.past); fromSeq == 0 && begin != nil {
		t.past = []any{begin}
	}
	return t, nil
}

// begins reports whether a message is the one with which a program begins a conversation.
func begins(m any) bool {
	raw, ok := m.([]byte)
	var is struct {
		Type    string `json:"type"`
		Subtype string `json:"subtype"`
	}
	return ok && json.Unmarshal(raw, &is) == nil && is.Type == "system" && is.Subtype == "init"
}

func (t *transcript) close() {
	t.cancel()
	t.stop()
}

// emit emits the past, and then what comes, until the program ends.
func (t *transcript) emit(ctx context.Context, emit socket.Emit) error {
	stop := context.AfterFunc(ctx, t.cancel)
	defer stop()
	for _, m := range t.past {
		if err := emit(m); err != nil {
			return err
		}
	}
	for !t.ended {
		f, err, ok := t.next()
		if !ok || err != nil {
			return err
		}
		for _, m := range t.messages(f) {
			if err := emit(m); err != nil {
				return err
			}
		}
		if f.Type == belljar.FrameTruncated {
			return errCut
		}
	}
	return nil
}

// messages returns the messages that a frame completes.
func (t *transcript) messages(f belljar.Frame) (list []any) {
	switch {
	case f.Type == belljar.FrameStdout:
		for line := range t.out.add(f.Output) {
			list = append(list, programLine(line))
		}
	case f.Type == belljar.FrameStderr:
		for line := range t.err.add(f.Output) {
			list = append(list, stderr(line))
		}
	case f.Type == belljar.FrameEvent && f.Event == belljar.EventEnd: // what has no end of line
		if len(t.out.held) > 0 {
			list = append(list, programLine(t.out.held))
		}
		if len(t.err.held) > 0 {
			list = append(list, stderr(t.err.held))
		}
	}
	return list
}

// programLine returns the message for a line of the program: a JSON object as it is.
func programLine(line []byte) any {
	if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(trimmed) {
		return append([]byte(nil), trimmed...)
	}
	return system{Type: "system", Subtype: "echo", Payload: strings.ToValidUTF8(string(line), "\uFFFD")}
}

func stderr(line []byte) any {
	return system{Type: "system", Subtype: "stderr", Message: strings.ToValidUTF8(string(line), "\uFFFD")}
}

// lines collects bytes into lines. Of a line that is too long, the beginning is kept.
type lines struct{ held []byte }

// add yields the lines that b completes, without their ends. Empty ones are left out.
func (l *lines) add(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for {
			end := bytes.IndexByte(b, '\n')
			part := b
			if end >= 0 {
				part = b[:end]
			}
			l.held = append(l.held, part[:min(len(part), maxLine-len(l.held))]...)
			if end < 0 {
				return
			}
			line := bytes.TrimSuffix(l.held, []byte("\r"))
			l.held = nil
			b = b[end+1:]
			if len(line) > 0 && !yield(line) {
				return
			}
		}
	}
}
