package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"sync"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
)

// The server's close codes for terminals, and for credentials that are no longer valid.
const (
	closeUnauthorized websocket.StatusCode = 4001
	closeNotFound     websocket.StatusCode = 4004
	closeTimeout      websocket.StatusCode = 4008
	closeOverflow     websocket.StatusCode = 4009
	closeReplaced     websocket.StatusCode = 4010
)

// attachment follows a terminal over one WebSocket.
type attachment struct {
	*link
	client *Client
	ctx    context.Context
	stop   context.CancelCauseFunc
	events chan belljar.TerminalEvent
	over   chan struct{} // closed when follow has returned

	mu    sync.Mutex
	state belljar.Terminal
	left  bool
	err   error // set before over is closed
}

var _ belljar.Attachment = (*attachment)(nil)

// terminalMessage is a message of the server.
type terminalMessage struct {
	Type     string            `json:"type"`
	Data     string            `json:"data"`
	Encoding string            `json:"encoding"`
	ExitCode int               `json:"exit_code"`
	Terminal *belljar.Terminal `json:"terminal"`

	Code    belljar.Code   `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
	Hint    string         `json:"hint"`
}

func (m terminalMessage) failure() error {
	return &belljar.Error{Code: m.Code, Message: m.Message, Details: m.Details, Hint: m.Hint}
}

// receive reads a message.
func (a *attachment) receive(ctx context.Context) (m terminalMessage, err error) {
	raw, err := a.message(ctx)
	if err == nil && json.Unmarshal(raw, &m) != nil {
		err = &belljar.Error{Code: belljar.CodeInternal, Message: "the terminal cannot be read"}
	}
	return m, err
}

// follow reads the server's messages until the connection ends.
func (a *attachment) follow() {
	defer close(a.over)
	defer a.link.end()
	var keeping sync.WaitGroup
	defer keeping.Wait()
	defer a.stop(nil)
	keeping.Go(func() { a.keepAlive(a.ctx, a.stop) })
	var last terminalMessage
	for {
		m, err := a.receive(a.ctx)
		if err != nil {
			a.conclude(last, err)
			return
		}
		last = m
		e, ok := a.event(m)
		if !ok {
			continue
		}
		select {
		case a.events <- e:
		case <-a.ctx.Done():
			a.conclude(last, context.Cause(a.ctx))
			return
		}
		if e.Kind == belljar.TerminalExit {
			a.finish(io.EOF)
			return
		}
	}
}

// event returns the terminal event of a message; false if it has none.
func (a *attachment) event(m terminalMessage) (e belljar.TerminalEvent, ok bool) {
	switch m.Type {
	case "history", "output":
		e.Kind, e.Data = belljar.TerminalEventKind(m.Type), []byte(m.Data)
		if m.Encoding == "base64" {
			data, err := base64.StdEncoding.DecodeString(m.Data)
			if err != nil {
				return e, false // not a Belljar server
			}
			e.Data = data
		}
		return e, true
	case "exit":
		a.mu.Lock()
		a.state.ExitCode = &m.ExitCode
		a.mu.Unlock()
		return belljar.TerminalEvent{Kind: belljar.TerminalExit, ExitCode: m.ExitCode}, true
	case "session":
		if m.Terminal != nil {
			a.mu.Lock()
			a.state = *m.Terminal
			a.mu.Unlock()
		}
	}
	return e, false
}

// conclude reports the end of a connection that ended before the program.
func (a *attachment) conclude(last terminalMessage, err error) {
	e := belljar.TerminalEvent{Kind: belljar.TerminalClosed}
	switch websocket.CloseStatus(err) {
	case closeReplaced:
		e.Kind = belljar.TerminalReplaced
	case closeOverflow:
		e.Kind = belljar.TerminalOverflow
	case closeNotFound:
		e.Reason = "closed"
	case closeTimeout:
		e.Reason, _ = last.Details["reason"].(string)
	case websocket.StatusGoingAway:
		e.Reason = "shutdown"
	default:
		if last.Type == "error" && websocket.CloseStatus(err) != -1 {
			a.finish(last.failure())
			return
		}
		a.finish(callerError(a.client.broken(a.ctx, err)))
		return
	}
	select {
	case a.events <- e:
		a.finish(io.EOF)
	case <-a.ctx.Done():
		a.finish(callerError(a.client.broken(a.ctx, err)))
	}
}

// finish records why the attachment ended. The first reason wins.
func (a *attachment) finish(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.err = err
	}
}

// Terminal returns the latest state from the server.
func (a *attachment) Terminal() belljar.Terminal {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// Next waits for the next event.
func (a *attachment) Next(ctx context.Context) (belljar.TerminalEvent, error) {
	select {
	case e := <-a.events:
		return e, nil
	case <-ctx.Done():
		return belljar.TerminalEvent{}, contextError(ctx)
	case <-a.over:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left {
		return belljar.TerminalEvent{}, io.EOF
	}
	return belljar.TerminalEvent{}, a.err
}

// Write sends input. It returns once all of it is written to the connection; if ctx ends before that, the connection ends.
func (a *attachment) Write(ctx context.Context, b []byte) error {
	for len(b) > 0 {
		piece := b[:min(len(b), inputFrame)]
		if err := a.send(ctx, websocket.MessageBinary, piece); err != nil {
			return err
		}
		b = b[len(piece):]
	}
	return nil
}

// Resize changes the size for all clients.
func (a *attachment) Resize(cols, rows int) error {
	if err := belljar.CheckTerminalSize(cols, rows); err != nil {
		return err
	}
	raw, err := json.Marshal(map[string]any{"type": "resize", "cols": cols, "rows": rows})
	if err != nil {
		return &belljar.Error{Code: belljar.CodeInternal, Message: "the size cannot be sent", Err: err}
	}
	if err := a.send(a.ctx, websocket.MessageText, raw); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.Cols, a.state.Rows = cols, rows
	return nil
}

func (a *attachment) send(ctx context.Context, kind websocket.MessageType, raw []byte) error {
	if err := a.say(ctx, kind, raw); err != nil {
		if e := contextError(ctx); e != nil && ctx != a.ctx { // its end ends the connection, too
			return e
		}
		return &belljar.Error{Code: belljar.CodeConflict, Message: "the terminal no longer accepts input", Err: err}
	}
	return nil
}

// Close detaches from the terminal. Its program continues for the reattach window.
func (a *attachment) Close() error {
	a.mu.Lock()
	again := a.left
	a.left = true
	a.mu.Unlock()
	if !again {
		go func() { // drains events, so that follow can read the server's close frame
			for {
				select {
				case <-a.events:
				case <-a.over:
					return
				}
			}
		}()
		_ = a.Conn.Close(websocket.StatusNormalClosure, "") // after the input; closed even after an error
	}
	a.stop(nil)
	<-a.over
	return nil
}
