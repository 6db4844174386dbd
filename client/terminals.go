package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/belljar/belljar"
)

// terminals implements [belljar.Terminals].
type terminals struct{ c *Client }

var _ belljar.Terminals = terminals{}

// Open starts a terminal without attaching to it. It is not retried after a broken connection.
func (t terminals) Open(ctx context.Context, sessionID string, spec belljar.TerminalSpec) (belljar.Terminal, error) {
	var made belljar.Terminal
	err := t.c.ask(ctx, request{
		method: http.MethodPost, path: route("sessions", sessionID, "terminals"), send: spec, once: true, longer: startup(0),
	}, &made)
	return made, err
}

// Get returns a terminal.
func (t terminals) Get(ctx context.Context, id string) (belljar.Terminal, error) {
	var got belljar.Terminal
	err := t.c.get(ctx, &got, nil, "terminals", id)
	return got, err
}

// List returns a session's terminals.
func (t terminals) List(ctx context.Context, sessionID string) ([]belljar.Terminal, error) {
	return items[belljar.Terminal](ctx, t.c, nil, "sessions", sessionID, "terminals")
}

// Close ends a terminal. A retried request may not find it.
func (t terminals) Close(ctx context.Context, id string) error {
	return t.c.ask(ctx, request{method: http.MethodDelete, path: route("terminals", id), once: true}, nil)
}

// Attach attaches to a terminal over a WebSocket. It retries the connection for Options.Patience. If the connection breaks
// later, the attachment ends with [belljar.CodeRuntimeUnavailable]: attach again for the missed output.
func (t terminals) Attach(ctx context.Context, id string) (belljar.Attachment, error) {
	a, err := reach(ctx, t.c.opts.Patience, func() (*attachment, error) { return t.c.attach(ctx, id) })
	if err != nil {
		return nil, err
	}
	return a, nil
}

// attach opens a terminal's WebSocket and reads the session message. The error may be [passing].
func (c *Client) attach(ctx context.Context, id string) (*attachment, error) {
	conn, err := c.connect(ctx, route("terminals"), url.Values{"terminal_id": {id}})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(maxTerminal)
	a := &attachment{link: conn, client: c, events: make(chan belljar.TerminalEvent), over: make(chan struct{})}
	watched, w := watch(ctx, c.opts.Silence)
	w.start()
	m, err := a.receive(watched)
	w.end()
	switch {
	case err != nil:
		conn.end()
		return nil, c.broken(ctx, err)
	case m.Type == "session_not_found":
		err = &belljar.Error{Code: belljar.CodeNotFound, Message: "terminal " + id + " does not exist", Details: map[string]any{"terminal_id": id}}
	case m.Type == "error":
		err = m.failure()
	case m.Type != "session" || m.Terminal == nil:
		err = &belljar.Error{Code: belljar.CodeInternal, Message: "the terminal cannot be read"}
	}
	if err != nil {
		conn.end()
		return nil, err
	}
	a.state = *m.Terminal
	a.ctx, a.stop = context.WithCancelCause(c.ctx)
	if !c.background(a.follow) {
		a.stop(nil)
		conn.end()
		return nil, &belljar.Error{Code: belljar.CodeCanceled, Message: errClosed.Error(), Err: errClosed}
	}
	return a, nil
}
