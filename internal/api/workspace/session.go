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

// The kinds of tokens. A pending one is of a session that its first use makes.
const (
	kindPTY     = "pty"
	kindChat    = "stream"
	kindPending = "pending"
)

// token returns a token for a terminal or a chat of the caller's workspace, or a random id that is pending.
func (c *call) token(kind, id string) (string, time.Time) {
	return c.door.tokens.Issue(socket.Claims{Provider: c.door.opts.Source.Mode(), ID: id, Kind: kind, User: c.caller.ID, Session: c.Session})
}

// returns reads the session_id of a client that comes back to something of a kind, or comes to what is pending. There are no claims
// if it begins anew.
func (c *call) returns(kind string) (socket.Claims, error) {
	token := c.r.URL.Query().Get("session_id")
	if token == "" || c.flag("force_new", false) {
		return socket.Claims{}, nil
	}
	claims, ok := c.door.tokens.Read(token, socket.Claims{Provider: c.door.opts.Source.Mode(), User: c.caller.ID, Session: c.Session})
	if !ok || claims.Kind != kind && claims.Kind != kindPending {
		return socket.Claims{}, socket.NotFound()
	}
	return claims, nil
}

// flag returns a boolean query parameter. What is neither true nor false is the fallback.
func (c *call) flag(name string, fallback bool) bool {
	if v, err := strconv.ParseBool(c.r.URL.Query().Get(name)); err == nil {
		return v
	}
	return fallback
}

// template returns the template of a kind that a client names. Without a name, it is the first choice if that exists, else the only
// one.
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

// isObject reports whether a message is a JSON object. Any other is what was typed.
func isObject(raw []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) && json.Valid(raw)
}

// notText is the verdict on a message that is not text.
func notText() error {
	return socket.Verdict{Code: websocket.StatusInvalidFramePayloadData, Reason: "message is not utf-8"}
}
