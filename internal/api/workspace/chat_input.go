package workspace

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/socket"
	"github.com/belljar/belljar/internal/char"
)

const (
	maxImage   = 5 << 20
	inputPiece = 32 << 10 // bytes of one write to the program
)

// message is a message of a client.
type message struct {
	Type      string          `json:"type"`
	Message   json.RawMessage `json:"message"`
	Files     []string        `json:"context_files"`
	Images    []image         `json:"images"`
	Command   string          `json:"command"`
	Subtype   string          `json:"subtype"`
	RequestID string          `json:"request_id"`
	ToolID    string          `json:"tool_id"` // another name of request_id
	Response  json.RawMessage `json:"response"`
}

type image struct {
	Data string `json:"data"`
	Mime string `json:"mimeType"`
	Type string `json:"media_type"` // another name of mimeType
}

// Receive implements [socket.Peer]: a message is a JSON object, or else a user's text.
func (x *chat) Receive(ctx context.Context, _ bool, raw []byte, emit socket.Emit) error {
	if !utf8.Valid(raw) {
		return notText()
	}
	if !isObject(raw) {
		if strings.TrimSpace(string(raw)) == "" {
			return nil
		}
		return x.tell(ctx, userLine(textBlock(string(raw))), emit)
	}
	if char.Values(raw) > api.MostValues {
		return emit(chatError(fmt.Sprintf("a message has at most %d values", api.MostValues)))
	}
	var m message
	if err := json.Unmarshal(raw, &m); err != nil {
		field := "a field"
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) && wrong.Field != "" {
			field = "field " + wrong.Field
		}
		return emit(chatError(field + " of the message has the wrong type"))
	}
	switch {
	case m.Type == "ping":
		return emit(socket.Typed{Type: "pong"})
	case m.Type == "interrupt", m.Type == "control" && m.Subtype == "interrupt":
		return x.interrupt(ctx, emit)
	case m.Type == "restart":
		return x.restart(ctx)
	case m.Type == "control" && m.Subtype == "initialize": // clients send it with each connection, and the program has begun
		return emit(system{Type: "system", Subtype: "echo", Payload: json.RawMessage(raw)})
	}
	line, err := m.line(raw)
	if err != nil {
		return emit(chatError(err.Error()))
	}
	return x.tell(ctx, line, emit)
}

// line returns the line for the program.
func (m message) line(raw []byte) (any, error) {
	switch m.Type {
	case "user":
		blocks, err := m.blocks()
		return userLine(blocks...), err
	case "command":
		if m.Command == "" {
			return nil, errors.New("command is missing")
		}
		return userLine(textBlock(m.Command)), nil
	case "control":
		return m.control(raw)
	case "control_response", "approval_response":
		return m.answer(raw)
	}
	return nil, errors.New("type is none of user, command, control, control_response, approval_response, ping, interrupt, restart")
}

func textBlock(text string) any {
	return map[string]any{"type": "text", "text": text}
}

func userLine(blocks ...any) any {
	return map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": blocks}}
}

// blocks returns the content of a user's message: names of files, text and images.
func (m message) blocks() (blocks []any, err error) {
	var text string
	var whole struct {
		Content json.RawMessage `json:"content"`
	}
	content := m.Message
	if json.Unmarshal(content, &whole) == nil && whole.Content != nil {
		content = whole.Content
	}
	if json.Unmarshal(content, &text) == nil {
		if text != "" {
			blocks = append(blocks, textBlock(text))
		}
	} else if json.Unmarshal(content, &blocks) != nil {
		return nil, errors.New("message is neither text nor an object nor a list of blocks")
	}
	var names []string
	for _, f := range m.Files {
		p, err := place(f)
		if err != nil {
			return nil, err
		}
		names = append(names, "@"+p)
	}
	if names != nil {
		blocks = slices.Insert(blocks, 0, textBlock(strings.Join(names, " ")))
	}
	for _, i := range m.Images {
		i.Mime = cmp.Or(i.Mime, i.Type)
		if url, ok := strings.CutPrefix(i.Data, "data:"); ok {
			kind, data, _ := strings.Cut(url, ",")
			i = image{Data: data, Mime: cmp.Or(i.Mime, strings.TrimSuffix(kind, ";base64"))}
		}
		i.Mime = cmp.Or(i.Mime, "image/png")
		switch {
		case !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, i.Mime):
			return nil, errors.New("an image is png, jpeg, gif or webp")
		case base64.StdEncoding.DecodedLen(len(i.Data)) > maxImage+2:
			return nil, errors.New("an image has at most 5 MiB")
		}
		if _, err := base64.StdEncoding.DecodeString(i.Data); err != nil {
			return nil, errors.New("the data of an image is not base64")
		}
		blocks = append(blocks, map[string]any{
			"type": "image", "source": map[string]any{"type": "base64", "media_type": i.Mime, "data": i.Data},
		})
	}
	if len(blocks) == 0 {
		return nil, errors.New("message is empty")
	}
	return blocks, nil
}

// controlLine is the line for a control message.
type controlLine struct {
	Type      string         `json:"type"` // control_request
	RequestID string         `json:"request_id"`
	Request   map[string]any `json:"request"`
	subtype   string
}

// sets returns the option that a control message sets, "" for one that is kept nowhere. Without a value, the program has its default.
func (l controlLine) sets() (name, value string) {
	name = map[string]string{"set_model": "model", "set_max_thinking_tokens": "max_thinking_tokens"}[l.subtype]
	switch v := l.Request[name].(type) {
	case nil:
	case string:
		value = v
	case float64:
		value = strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return "", ""
	}
	if len(value) > maxValue {
		return "", ""
	}
	return name, value
}

// control returns the line for a control message: the message's own fields below request.
func (m message) control(raw []byte) (any, error) {
	if !slices.Contains([]string{"set_permission_mode", "set_model", "set_max_thinking_tokens"}, m.Subtype) {
		return nil, errors.New("subtype is none of initialize, interrupt, set_permission_mode, set_model, set_max_thinking_tokens")
	}
	line := controlLine{Type: "control_request", RequestID: cmp.Or(m.RequestID, belljar.NewID()), subtype: m.Subtype}
	if err := json.Unmarshal(raw, &line.Request); err != nil {
		return nil, errors.New("message is not an object")
	}
	delete(line.Request, "type")
	delete(line.Request, "request_id")
	return line, nil
}

// tellGrace is how long a client that leaves within its message waits for the program to read the rest. The server stops in that time, too.
// The input of a program on another machine waits longer, in its Close.
const tellGrace = time.Second

// tell writes a line to the program. Lines of several clients do not mix, and a line that was cut is ended in front of the next one.
func (x *chat) tell(ctx context.Context, line any, emit socket.Emit) error {
	raw, err := socket.Encode(line)
	if err != nil {
		return err
	}
	raw = append(raw, '\n')
	p := x.current()
	if p.stdin == nil {
		return nil
	}
	unlock, err := x.call.door.inputs.Lock(ctx, p.runID)
	if err != nil {
		return err
	}
	defer unlock()
	_, cut := x.call.door.cut.LoadAndDelete(p.runID)
	if cut {
		raw = slices.Insert(raw, 0, '\n')
	}
	// A write that the program does not read ends.
	defer context.AfterFunc(ctx, func() { time.AfterFunc(tellGrace, p.release) })()
	if err = writeLine(p.stdin, raw); err == nil {
		if l, ok := line.(controlLine); ok {
			x.call.door.keep(p.runID, l)
		}
		return nil
	}
	if ctx.Err() == nil {
		switch belljar.CodeOf(err) {
		case belljar.CodeQuotaExceeded, belljar.CodeTooLarge:
			return emit(chatError("the chat program has read all that one may; restart it"))
		case belljar.CodeConflict:
			return nil // it has ended, which Follow reports
		}
	}
	if cut || len(raw) > inputPiece { // one piece is written whole or not at all
		x.call.door.cut.Store(p.runID, true)
	}
	return err
}

// writeLine writes a line in pieces, and returns after the program's agent has accepted all of them. The client's Write returns before, and each
// chat has a connection of its own, so pieces of another chat could come in between.
func writeLine(to belljar.Stdin, line []byte) error {
	for piece := range slices.Chunk(line, inputPiece) {
		if _, err := to.Write(piece); err != nil {
			return err
		}
	}
	if far, ok := to.(interface{ Flush() error }); ok {
		return far.Flush()
	}
	return nil
}

// interruption sends SIGINT to the processes of the chat whose id is its argument. It fails if there is none.
const interruption = `none=1
for e in $(grep -lsxz "` + chatEnv + `=$0" /proc/[0-9]*/environ); do
	pid=${e%/environ}
	kill -INT "${pid#/proc/}" && none=0
done
exit $none`

// signalTime limits the time to interrupt a program.
const signalTime = 5 * time.Second

// interrupt sends the program and its children SIGINT, as a terminal does.
func (x *chat) interrupt(ctx context.Context, emit socket.Emit) error {
	sent, err := x.signal(ctx)
	if err != nil && belljar.CodeOf(err) != belljar.CodeTimeout {
		return err
	}
	if !sent {
		return emit(chatError("the chat program could not be interrupted"))
	}
	return emit(system{Type: "system", Subtype: "interrupted", SessionID: x.greeting().SessionID})
}

// signal executes the interruption, and reports whether it has found a process. It uses a terminal: with a quota of one run, a new run would
// wait for the chat's own. If the user's terminals are all in use, signal starts a run.
func (x *chat) signal(ctx context.Context) (sent bool, err error) {
	command, all := []string{"/bin/sh", "-c", interruption, x.id}, x.call.Engine.Terminals()
	made, err := all.Open(ctx, x.call.Session, belljar.TerminalSpec{Command: command})
	if belljar.CodeOf(err) == belljar.CodeQuotaExceeded {
		done, err := x.call.exec(ctx, "signal", min(signalTime, x.call.door.opts.ChatLifetime), nil, command...)
		return err == nil && done.code == 0, err
	}
	if err != nil {
		return false, err
	}
	defer func() {
		ending, stop := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		_ = all.Close(ending, made.ID) // if that fails, it has ended or soon will
		stop()
	}()
	following, stop := context.WithTimeout(ctx, signalTime)
	defer stop()
	a, err := all.Attach(following, made.ID)
	if err != nil {
		return false, err
	}
	defer a.Close()
	for {
		e, err := a.Next(following)
		switch {
		case err != nil && following.Err() != nil:
			return false, ctx.Err() // else signalTime is over
		case err != nil:
			return false, err
		case e.Kind != belljar.TerminalHistory && e.Kind != belljar.TerminalOutput:
			return e.Kind == belljar.TerminalExit && e.ExitCode == 0, nil
		}
	}
}

// restart replaces the program by a new one, which continues the conversation if its template supports that.
func (x *chat) restart(ctx context.Context) error {
	unlock, err := x.call.door.locks.Lock(ctx, x.id)
	if err != nil {
		return err
	}
	defer unlock()
	runs, err := x.call.chats(x.id, unended...) // another client may have restarted it in the meantime
	if err != nil {
		return err
	}
	for _, run := range runs {
		x.mu.Lock()
		x.options = x.call.door.opts.Templates[x.template].with(x.options, x.call.door.kept(run.ID))
		x.mu.Unlock()
	}
	next, err := x.start(ctx, true, ids(runs)...)
	if err != nil {
		return err
	}
	x.replace(next) // Follow reports it
	return nil
}
