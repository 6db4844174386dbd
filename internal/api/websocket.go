package api

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/belljar/belljar"
)

// IsWebSocket reports whether a request asks for a WebSocket.
func IsWebSocket(r *http.Request) bool {
	for _, token := range strings.Split(strings.Join(r.Header.Values("Connection"), ","), ",") {
		if strings.EqualFold(strings.TrimSpace(token), "upgrade") && strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			return true
		}
	}
	return false
}

// OfferWebSocket adds to a refusal that the server has a WebSocket here. Later versions of HTTP do not allow these headers.
func OfferWebSocket(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
	}
}

// RequireWebSocket returns an error if a request does not ask for a WebSocket, and offers one in the response's header, or if its
// handshake is malformed. instead describes an alternative for the hint; "" means none.
func RequireWebSocket(w http.ResponseWriter, r *http.Request, instead string) error {
	if IsWebSocket(r) {
		return checkHandshake(w, r)
	}
	OfferWebSocket(w, r)
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: "this is a WebSocket, and the request does not ask for one",
		Hint:    "connect by WebSocket" + instead + "; a proxy in front of the server must pass Upgrade and Connection on",
		Details: map[string]any{"field": "Upgrade"},
	}
}

// checkHandshake checks what the library would otherwise refuse in plain text.
func checkHandshake(w http.ResponseWriter, r *http.Request) error {
	keys, version := r.Header.Values("Sec-WebSocket-Key"), r.Header.Get("Sec-WebSocket-Version")
	refused := func(field, message, hint string) error {
		e := Refuse(field, "%s", message)
		e.Hint = hint
		return e
	}
	switch {
	case !r.ProtoAtLeast(1, 1):
		return refused("Upgrade", "a WebSocket needs HTTP/1.1, and the request is "+r.Proto, "a proxy in front of the server must use HTTP/1.1 for WebSockets")
	case version != "13":
		w.Header().Set("Sec-WebSocket-Version", "13")
		return refused("Sec-WebSocket-Version", fmt.Sprintf("Sec-WebSocket-Version is %q, and only 13 is supported", version), "connect with a WebSocket client (RFC 6455)")
	case len(keys) != 1:
		return refused("Sec-WebSocket-Key", fmt.Sprintf("the request has %d Sec-WebSocket-Key headers, and needs one", len(keys)), "connect with a WebSocket client (RFC 6455)")
	}
	if key, err := base64.StdEncoding.DecodeString(keys[0]); err != nil || len(key) != 16 {
		return refused("Sec-WebSocket-Key", "Sec-WebSocket-Key must be 16 bytes in base64", "connect with a WebSocket client (RFC 6455)")
	}
	return nil
}

// ForeignOrigin returns the error for a web page that may not open a WebSocket. what names the WebSocket, with an article.
func ForeignOrigin(what string) error {
	return &belljar.Error{
		Code: belljar.CodeForbidden, Message: "this web page may not open " + what,
		Hint: "name its origin in SANDBOX_ALLOWED_ORIGINS", Details: map[string]any{"field": "Origin"},
	}
}

// ConnWrapper is a response writer that wraps the connection when a WebSocket takes it over. With a nil Wrap, only net/http's wrapper
// goes, which ends the request's context when a write fails.
type ConnWrapper struct {
	http.ResponseWriter
	Wrap func(net.Conn) net.Conn
}

// Hijack implements [http.Hijacker].
func (w *ConnWrapper) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if w.Wrap != nil {
		conn = w.Wrap(conn)
	}
	rw.Writer.Reset(conn)
	return conn, rw, nil
}
