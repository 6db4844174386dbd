package workspace

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/socket"
	"github.com/belljar/belljar/internal/char"
)

// pendingMark begins the name of a terminal that a pending token has opened: it and the id in the token, then a space and session_name.
const pendingMark = "workspace:"

// maxShown limits session_name, in bytes, where the name of the terminal has more.
const maxShown = 200

// pty attaches to the terminal of session_id, or opens one. With force_new, it opens one in place of that.
func (c *call) pty() (socket.Peer, error) {
	q, ctx := c.r.URL.Query(), c.r.Context()
	claims, err := c.returns(kindPTY)
	if err != nil {
		return nil, err
	}
	id, name := claims.ID, strings.TrimPrefix(q.Get("session_name"), pendingMark)
	if claims.Kind == kindPending {
		unlock, err := c.door.locks.Lock(ctx, claims.ID)
		if err != nil {
			return nil, err
		}
		defer unlock()
		mark := pendingMark + claims.ID + " "
		if id, err = c.named(mark); err != nil {
			return nil, err
		}
		name = mark + char.Short(name, maxShown)
	}
	old := ""
	if c.flag("force_new", false) {
		old, id = id, ""
	}
	resumed, provider := id != "", claims.Template
	if !resumed {
		var template Template
		if provider, template, err = c.template(templatePTY, q.Get("provider"), "shell", ptyDialect{}.Failed); err != nil {
			return nil, err
		}
		command, err := template.command(optionsOf(template, q), "", nil)
		if err != nil {
			return nil, err
		}
		made, err := reopen(ctx, c.Engine.Terminals(), c.Session, old, belljar.TerminalSpec{Command: command, Name: name, Shared: true})
		if err != nil {
			return nil, err
		}
		id = made.ID
		c.door.opts.Logger.Info("workspace terminal", "template", provider, "terminal_id", id, "user_id", c.caller.ID, "request_id", c.caller.RequestID)
	}
	a, err := c.Engine.Terminals().Attach(ctx, id)
	if err != nil {
		return nil, err
	}
	if a.Terminal().SessionID != c.Session {
		_ = a.Close() // never fails
		return nil, socket.NotFound()
	}
	if provider == "" {
		provider = c.door.opts.Templates.of(a.Terminal().Command)
	}
	return &socket.Screen{Attachment: a, Dialect: ptyDialect{}, History: c.flag("resume", true), Greeting: func() any {
		token, expires := c.token(socket.Claims{Kind: kindPTY, ID: id, Template: provider})
		return ptySession{"session", token, provider, resumed, expires}
	}}, nil
}

// reopen opens a terminal in place of old; "" is none. If that fails, old stays, unless it was closed to make room.
func reopen(ctx context.Context, all belljar.Terminals, session, old string, spec belljar.TerminalSpec) (belljar.Terminal, error) {
	made, err := all.Open(ctx, session, spec)
	full := belljar.CodeOf(err) == belljar.CodeQuotaExceeded
	if old == "" || err != nil && !full {
		return made, err
	}
	if err := all.Close(ctx, old); err != nil && belljar.CodeOf(err) != belljar.CodeNotFound {
		if !full { // the client would not learn of it
			ending, stop := context.WithTimeout(context.WithoutCancel(ctx), endTime)
			_ = all.Close(ending, made.ID) // if that fails, it is listed like any other
			stop()
		}
		return made, err
	}
	if full {
		return all.Open(ctx, session, spec)
	}
	return made, nil
}

// named returns the terminal whose name begins with mark; "" if there is none.
func (c *call) named(mark string) (string, error) {
	list, err := c.Engine.Terminals().List(c.r.Context(), c.Session)
	for _, t := range list {
		if strings.HasPrefix(t.Name+" ", mark) { // a recovered one of an earlier version ends with the id
			return t.ID, err
		}
	}
	return "", err
}

// ptySession is the session message, with the token to reconnect.
type ptySession struct {
	Type      string    `json:"type"` // session
	SessionID string    `json:"session_id"`
	Provider  string    `json:"provider"`
	Resumed   bool      `json:"resumed"`
	ExpiresAt time.Time `json:"expires_at"`
}

type ptyText struct {
	Type string `json:"type"` // history | output
	Data string `json:"data"`
}

type ptyExit struct {
	Type     string `json:"type"` // exit
	Code     int    `json:"code"`
	ExitCode int    `json:"exit_code"` // the same as code
}

type ptyFailure struct {
	Type    string       `json:"type"` // error
	Code    belljar.Code `json:"code"`
	Message string       `json:"message"`
	Data    string       `json:"data"` // the same as message
}

// ptyDialect has the messages of terminals. It replaces invalid bytes.
type ptyDialect struct{}

var _ socket.Dialect = ptyDialect{}

// Text implements [socket.Dialect].
func (ptyDialect) Text(kind string, b []byte) any {
	return ptyText{kind, strings.ToValidUTF8(string(b), "\uFFFD")}
}

// Exit implements [socket.Dialect].
func (ptyDialect) Exit(code int) any { return ptyExit{"exit", code, code} }

// Failed implements [socket.Dialect].
func (ptyDialect) Failed(e *belljar.Error) any {
	return ptyFailure{"error", e.Code, messageOf(e), messageOf(e)}
}

// Decode implements [socket.Dialect]: a message is a JSON object, or else typed text.
func (ptyDialect) Decode(text bool, raw []byte) (socket.Input, error) {
	if !text || !isObject(raw) {
		if text && !utf8.Valid(raw) {
			return socket.Input{}, notText()
		}
		return socket.Input{Type: "input", Bytes: raw}, nil
	}
	in := struct {
		Type string `json:"type"`
		Data string `json:"data"`
		Cols int    `json:"cols"`
		Rows int    `json:"rows"`
	}{Cols: 80, Rows: 24}
	if json.Unmarshal(raw, &in) != nil {
		return socket.Input{}, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "a field of the message has the wrong type"}
	}
	if in.Type != "input" && in.Type != "resize" && in.Type != "ping" {
		return socket.Input{}, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "type is none of input, resize, ping"}
	}
	return socket.Input{Type: in.Type, Bytes: []byte(in.Data), Cols: in.Cols, Rows: in.Rows}, nil
}
