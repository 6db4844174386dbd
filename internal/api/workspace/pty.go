package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// pty is a terminal of a workspace, as one client sees it.
type pty struct {
	*call
	belljar.Attachment
	template string
	resumed  bool
	history  bool   // whether the client wants it
	held     []byte // the beginning of a character
}

// flag returns a boolean query parameter. What is neither true nor false is the fallback.
func (c *call) flag(name string, fallback bool) bool {
	if v, err := strconv.ParseBool(c.r.URL.Query().Get(name)); err == nil {
		return v
	}
	return fallback
}

// unknown is the verdict on a template that does not exist.
func unknown(name string, available []string, message func(belljar.Code, string) any) verdict {
	text := fmt.Sprintf("Unknown provider: %s. Available: [%s]", short(name), strings.Join(available, ", "))
	return verdict{closeUnknown, text, message(belljar.CodeInvalidRequest, text)}
}

// pty attaches to the terminal of session_id, or opens one.
func (c *call) pty() (peer, error) {
	q := c.r.URL.Query()
	name, template, ok := c.door.opts.Templates.pick(templatePTY, q.Get("provider"), "shell")
	if !ok {
		return nil, unknown(name, c.door.opts.Templates.names(templatePTY), ptyError)
	}
	p := &pty{call: c, template: name, history: c.flag("resume", true)}
	id, pending := "", ""
	if token := q.Get("session_id"); token != "" && !c.flag("force_new", false) {
		claims, err := c.claims(token)
		if err != nil || claims.Kind == kindChat {
			return nil, notFound()
		}
		if id = claims.ID; claims.Kind == kindPending {
			id, pending = "", claims.ID
			unlock, err := c.door.locks.lock(c.r.Context(), pending)
			if err != nil {
				return nil, err
			}
			defer unlock()
			if id, err = c.opened(pending); err != nil {
				return nil, err
			}
		}
	}
	if id == "" {
		command, err := template.command(optionsOf(template, q), "", nil)
		if err != nil {
			return nil, err
		}
		made, err := c.Engine.Terminals().Open(c.r.Context(), c.Session, belljar.TerminalSpec{
			Command: command, Name: terminalName(pending, q.Get("session_name")), Shared: true,
		})
		if err != nil {
			return nil, err
		}
		id = made.ID
		c.door.opts.Logger.Info("workspace terminal", "template", name, "terminal_id", id, "user_id", c.caller.ID, "request_id", c.caller.RequestID)
	} else {
		p.resumed = true
	}
	var err error
	p.Attachment, err = c.Engine.Terminals().Attach(c.r.Context(), id)
	if err != nil {
		return nil, err
	}
	if p.Terminal().SessionID != c.Session {
		p.Attachment.Close()
		return nil, notFound()
	}
	return p, nil
}

// pendingMark begins the name of a terminal that a pending token has opened.
const pendingMark = "workspace:"

func terminalName(pending, name string) string {
	if pending != "" {
		return pendingMark + pending
	}
	return strings.TrimPrefix(name, pendingMark)
}

// opened returns the terminal that a pending token has opened already; "" if there is none.
func (c *call) opened(pending string) (string, error) {
	list, err := c.Engine.Terminals().List(c.r.Context(), c.Session)
	for _, t := range list {
		if t.Name == pendingMark+pending {
			return t.ID, err
		}
	}
	return "", err
}

// ptySession is the session message: the token to come back with.
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
	ExitCode int    `json:"exit_code"` // the same
}

type ptyFailure struct {
	Type    string       `json:"type"` // error
	Code    belljar.Code `json:"code"`
	Message string       `json:"message"`
	Data    string       `json:"data"` // the same
}

func ptyError(code belljar.Code, text string) any { return ptyFailure{"error", code, text, text} }

func (p *pty) close() { _ = p.Attachment.Close() }

func (p *pty) greet() (any, error) {
	token, expires, err := p.token(kindPTY, p.Terminal().ID)
	return ptySession{"session", token, p.template, p.resumed, expires}, err
}

func (p *pty) follow(ctx context.Context, emit func(any) error) verdict {
	for {
		e, err := p.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return notFound()
		case err != nil && ctx.Err() != nil:
			return verdict{reason: "client"}
		case err != nil:
			return verdict{websocket.StatusInternalError, "internal error", ptyError(belljar.CodeInternal, "internal error")}
		}
		if e.Kind == belljar.TerminalHistory && !p.history {
			continue
		}
		if e.Kind == belljar.TerminalHistory || e.Kind == belljar.TerminalOutput {
			err = p.show(string(e.Kind), e.Data, emit)
		} else {
			if len(p.held) > 0 {
				_ = emit(ptyText{string(belljar.TerminalOutput), "\uFFFD"})
			}
			return over(e)
		}
		if err != nil {
			return lost(err)
		}
	}
}

// show emits text. It never ends within a character; bytes that are none are replaced.
func (p *pty) show(kind string, b []byte, emit func(any) error) error {
	b = append(p.held, b...)
	n := len(b) - api.Unfinished(b)
	p.held = append([]byte(nil), b[n:]...)
	if n == 0 {
		return nil
	}
	return emit(ptyText{kind, strings.ToValidUTF8(string(b[:n]), "\uFFFD")})
}

// over returns the verdict for the last event of a terminal.
func over(e belljar.TerminalEvent) verdict {
	switch {
	case e.Kind == belljar.TerminalExit:
		return verdict{websocket.StatusNormalClosure, "the program has ended", ptyExit{"exit", e.ExitCode, e.ExitCode}}
	case e.Kind == belljar.TerminalOverflow:
		const text = "too slow for what the terminal prints; attach again for the history"
		return verdict{closeOverflow, text, ptyError(belljar.CodeRateLimited, text)}
	case e.Kind == belljar.TerminalReplaced:
		const text = "the terminal is used from elsewhere now"
		return verdict{4010, text, ptyError(belljar.CodeConflict, text)}
	case e.Reason == "idle", e.Reason == "lifetime":
		const text = "the terminal was unused, or lived, for too long"
		return verdict{closeTimeout, text, ptyError(belljar.CodeTimeout, text)}
	case e.Reason == "shutdown":
		return verdict{code: websocket.StatusGoingAway, reason: "server is shutting down"}
	}
	return notFound()
}

// receive handles a message: JSON, or else what was typed.
func (p *pty) receive(ctx context.Context, text bool, raw []byte, emit func(any) error) error {
	if !text {
		return p.input(ctx, raw)
	}
	var in struct {
		Type string `json:"type"`
		Data string `json:"data"`
		Cols *int   `json:"cols"`
		Rows *int   `json:"rows"`
	}
	if trimmed := strings.TrimSpace(string(raw)); !strings.HasPrefix(trimmed, "{") || !json.Valid(raw) {
		if !utf8.Valid(raw) {
			return verdict{websocket.StatusInvalidFramePayloadData, "message is not utf-8", nil}
		}
		return p.input(ctx, raw)
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return emit(ptyError(belljar.CodeInvalidRequest, "a field of the message has the wrong type"))
	}
	switch in.Type {
	case "input":
		return p.input(ctx, []byte(in.Data))
	case "ping":
		return emit(typed{"pong"})
	case "resize":
		cols, rows := 80, 24
		if in.Cols != nil {
			cols = *in.Cols
		}
		if in.Rows != nil {
			rows = *in.Rows
		}
		if err := p.Resize(cols, rows); belljar.CodeOf(err) == belljar.CodeInvalidRequest {
			return emit(ptyError(belljar.CodeInvalidRequest, err.Error()))
		}
		return nil // any other error means that the terminal has ended, which its last event reports
	}
	return emit(ptyError(belljar.CodeInvalidRequest, "type is none of input, resize, ping"))
}

func (p *pty) input(ctx context.Context, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	err := p.Attachment.Write(ctx, b)
	if belljar.CodeOf(err) == belljar.CodeConflict {
		return nil // the terminal has ended, which its last event reports
	}
	return err
}
