package workspace

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/socket"
)

// maxLine limits the shown part of a line of a chat's program, in bytes.
const maxLine = 1 << 20

// errCut means that the rest of a program's output was not kept.
var errCut = errors.New("output is cut")

// program is one run of a chat.
type program struct {
	runID string
	stdin belljar.Stdin // nil if the run had already ended

	next     func() (belljar.Frame, error, bool)
	cancel   context.CancelFunc // ends a blocked next
	stop     func()             // ends the reading; must not be called during next
	out, err lines

	past   []any // earlier messages to begin with
	before int   // number of messages before past
	ended  bool  // no messages follow past
}

// chatEnv is the environment variable with the id of the chat, by which [chat.interrupt] finds its processes.
const chatEnv = "BELLJAR_CHAT"

// start starts a program that begins the chat or, with again, continues it after the end of the old ones.
func (x *chat) start(ctx context.Context, again bool, old ...string) (*program, error) {
	release, err := x.reserve(ctx, again)
	if err != nil {
		return nil, err
	}
	defer release()
	for _, runID := range old {
		if err := x.end(ctx, runID); err != nil {
			return nil, err
		}
	}
	template := x.call.door.opts.Templates[x.template]
	more := template.Start
	if again && len(template.Resume) > 0 {
		more = template.Resume
	}
	command, err := template.command(x.options, x.id, more)
	if err != nil {
		return nil, err
	}
	had, err := json.Marshal(x.options)
	if err != nil {
		return nil, err
	}
	env := map[string]string{chatEnv: x.id}
	maps.Copy(env, template.Env)
	run, err := x.call.Engine.Runs().Start(ctx, belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, SessionID: x.call.Session, Command: command, Cwd: ".", Env: env, Interactive: true,
		TimeoutSec: x.call.door.opts.ChatLifetime.Seconds(), StdinIdleTimeoutSec: chatIdle.Seconds(), StdinMaxBytes: chatInput,
		StdinMaxFrameBytes: inputPiece, StdinBytesPerSec: chatInputRate,
		Labels: map[string]string{label: "chat", chatLabel: x.id, templateLabel: x.template, optionsLabel: string(had)},
	}})
	if err != nil {
		return nil, err
	}
	x.call.door.opts.Logger.Info("workspace chat", "template", x.template, "run_id", run.ID, "user_id", x.call.caller.ID, "request_id", x.call.caller.RequestID)
	return x.follows(ctx, run.ID, 0, true)
}

// follows opens the input and the output of a run. It shows everything from a fresh run. From other runs it shows new messages, and
// earlier ones from fromSeq on; with 0, only the last message that begins a conversation.
func (x *chat) follows(ctx context.Context, runID string, fromSeq int, fresh bool) (*program, error) {
	run, err := x.call.Engine.Runs().Get(ctx, runID)
	if err != nil {
		return nil, err
	}
	// A client may have left while its program waited.
	fresh = fresh || run.Phase == belljar.PhaseQueued || run.Phase == belljar.PhaseStarting
	reading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	next, stop := iter.Pull2(x.call.Engine.Runs().Frames(reading, runID, 1))
	p := &program{runID: runID, next: next, cancel: cancel, stop: func() { cancel(); stop() }}
	hold := context.AfterFunc(ctx, cancel) // a client that leaves does not wait for a program to begin
	err = p.recall(run.LastSeq, fromSeq, fresh)
	hold()
	if err != nil {
		p.stop()
		return nil, err
	}
	p.stdin, err = x.call.Engine.Runs().Stdin(ctx, runID)
	if err != nil && belljar.CodeOf(err) != belljar.CodeConflict { // a conflict means that it has ended, which its log shows
		p.stop()
		return nil, err
	}
	return p, nil
}

// recall reads the past of a run, which for a fresh one is until its program runs. The log is read from its beginning, so that lines
// are whole. It leaves the messages that the client requests to emit: decoded, many tiny ones need a hundred times the memory of the log.
func (p *program) recall(lastSeq uint64, fromSeq int, fresh bool) error {
	if fresh {
		fromSeq = 1
	}
	var begin any // the last message that begins a conversation
	seen := 0
	for at := uint64(0); fresh && !p.ended || at < lastSeq; {
		f, err, ok := p.next()
		if err != nil || !ok {
			return cmp.Or(err, error(socket.NotFound()))
		}
		at = f.Seq
		for _, m := range p.messages(f) {
			if seen++; fromSeq > 0 && seen >= fromSeq {
				p.past = append(p.past, m)
			}
			if begins(m) {
				begin = m
			}
		}
		if p.ended = f.Event == belljar.EventEnd; p.ended && !fresh {
			return socket.NotFound()
		}
		if fresh && f.Event == belljar.EventStart || !fresh && fromSeq > 0 && seen >= fromSeq-1 {
			break
		}
	}
	if fromSeq == 0 && begin != nil { // it counts as the last message, so that a client that counts arrives at the next number
		p.past = []any{begin}
	}
	p.before = seen - len(p.past)
	return nil
}

// begins reports whether a message begins a conversation.
func begins(m any) bool {
	raw, ok := m.([]byte)
	var is struct {
		Type    string `json:"type"`
		Subtype string `json:"subtype"`
	}
	return ok && json.Unmarshal(raw, &is) == nil && is.Type == "system" && is.Subtype == "init"
}

// release closes the program's input.
func (p *program) release() {
	if p.stdin != nil {
		_ = p.stdin.Close() // never fails
	}
}

// ended is the verdict for a program that has ended.
func (x *chat) ended(ctx context.Context, runID string) socket.Verdict {
	x.call.door.set.Delete(runID)
	v := socket.Verdict{Code: websocket.StatusNormalClosure, Reason: "the program has ended"}
	run, err := x.call.Engine.Runs().Get(ctx, runID)
	switch {
	case err != nil:
		return socket.NotFound()
	case run.ExitCode == nil:
		v.Message = chatError("the chat program could not be started")
	case run.Phase == belljar.PhaseTimedOut:
		return failed(socket.CloseTimeout, "the chat's lifetime is over")
	case *run.ExitCode != 0 && run.Phase != belljar.PhaseKilled:
		v.Message = chatError(fmt.Sprintf("the chat program has ended with exit code %d", *run.ExitCode))
	case run.Phase != belljar.PhaseCompleted:
		v.Message = chatError("the chat program was ended")
	}
	return v
}

// end ends a run and waits for its end.
func (x *chat) end(ctx context.Context, runID string) error {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	if err := x.call.Engine.Runs().Cancel(ctx, runID); err != nil {
		return err
	}
	for _, err := range x.call.Engine.Runs().Frames(ctx, runID, belljar.Tail) {
		if err != nil {
			return err
		}
	}
	x.call.door.set.Delete(runID)
	return nil
}

// emit emits the earlier messages, and then new ones until the program ends.
func (p *program) emit(ctx context.Context, emit socket.Emit) error {
	stop := context.AfterFunc(ctx, p.cancel)
	defer stop()
	for _, m := range p.past {
		if err := emit(m); err != nil {
			return err
		}
	}
	for !p.ended {
		f, err, ok := p.next()
		if !ok || err != nil {
			return err
		}
		for _, m := range p.messages(f) {
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
func (p *program) messages(f belljar.Frame) (list []any) {
	end := f.Event == belljar.EventEnd
	if f.Type == belljar.FrameStdout || end {
		for _, line := range p.out.add(f.Output, end) {
			list = append(list, programLine(line))
		}
	}
	if f.Type == belljar.FrameStderr || end {
		for _, line := range p.err.add(f.Output, end) {
			list = append(list, system{Type: "system", Subtype: "stderr", Message: strings.ToValidUTF8(string(line), "\uFFFD")})
		}
	}
	return list
}

// programLine returns the message for a line of the program: a JSON object unchanged, apart from bytes that are not UTF-8. Browsers close a
// WebSocket with such a byte in a text message.
func programLine(line []byte) any {
	line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(trimmed) {
		return trimmed
	}
	return system{Type: "system", Subtype: "echo", Payload: string(line)}
}

// lines splits bytes into lines. It keeps only the beginning of a line that is too long.
type lines struct{ held []byte }

// add returns the lines that b completes, without their line ends. With end it also returns the last, incomplete line. It omits
// empty lines.
func (l *lines) add(b []byte, end bool) (list [][]byte) {
	for rest := b; len(rest) > 0 || end && len(l.held) > 0; {
		part, after, whole := bytes.Cut(rest, []byte("\n"))
		l.held = append(l.held, part[:min(len(part), maxLine-len(l.held))]...)
		if rest = after; !whole && !end {
			break
		}
		if line := bytes.TrimSuffix(l.held, []byte("\r")); len(line) > 0 {
			list = append(list, line)
		}
		l.held = nil
	}
	return list
}
