package workspace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/socket"
)

// The kinds of tokens. The first use of a pending token makes its terminal or chat.
const (
	kindPTY     = "pty"
	kindChat    = "stream"
	kindPending = "pending"
)

// token returns a token with the claims about a terminal or a chat of the caller's workspace, or about a random id that is pending.
func (c *call) token(claims socket.Claims) (string, time.Time) {
	claims.Provider, claims.User, claims.Session = c.door.opts.Source.Mode(), c.caller.ID, c.Session
	return c.door.tokens.Issue(claims)
}

// returns reads the session_id of a client that reconnects to a terminal or chat, or uses a pending token. The claims are empty if
// the client starts a new one.
func (c *call) returns(kind string) (socket.Claims, error) {
	token := c.r.URL.Query().Get("session_id")
	if token == "" {
		return socket.Claims{}, nil
	}
	claims, ok := c.door.tokens.Read(token, socket.Claims{Provider: c.door.opts.Source.Mode(), User: c.caller.ID, Session: c.Session})
	ok = ok && (claims.Kind == kind || claims.Kind == kindPending)
	switch {
	case ok:
		return claims, nil
	case c.flag("force_new", false):
		return socket.Claims{}, nil
	}
	return socket.Claims{}, socket.NotFound()
}

// flag returns a boolean query parameter, or fallback if it is neither true nor false.
func (c *call) flag(name string, fallback bool) bool {
	if v, err := strconv.ParseBool(c.r.URL.Query().Get(name)); err == nil {
		return v
	}
	return fallback
}

// template returns the template of a kind that a client names. Without a name it returns first if that exists, else the only one.
func (c *call) template(kind, name, first string, failed func(*belljar.Error) any) (string, Template, error) {
	all := c.door.opts.Templates
	names := all.names(kind)
	if name == "" {
		if name = first; !slices.Contains(names, first) && len(names) == 1 {
			name = names[0]
		}
	}
	if slices.Contains(names, name) {
		return name, all[name], nil
	}
	code, e := socket.CloseUnknown, &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("Unknown provider: %s. Available: [%s]", short(name), strings.Join(names, ", ")),
	}
	if kind == templateChat && len(names) == 0 {
		code, e.Message = websocket.StatusPolicyViolation, "no chat program is configured; set SANDBOX_WORKSPACE_TEMPLATES"
	}
	return "", Template{}, socket.Verdict{Code: code, Reason: e.Message, Message: failed(e)}
}

// isObject reports whether a message is a JSON object. Other messages are typed text.
func isObject(raw []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) && json.Valid(raw)
}

// notText is the verdict for a message that is not text.
func notText() error {
	return socket.Verdict{Code: websocket.StatusInvalidFramePayloadData, Reason: "message is not utf-8"}
}
