package api

import (
	"bufio"
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

// RequireWebSocket returns an error if a request does not ask for a WebSocket, and offers one in the response's header. instead
// describes an alternative for the hint; "" means none.
func RequireWebSocket(w http.ResponseWriter, r *http.Request, instead string) error {
	if IsWebSocket(r) {
		return nil
	}
	OfferWebSocket(w, r)
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: "this is a WebSocket, and the request does not ask for one",
		Hint:    "connect by WebSocket" + instead + "; a proxy in front of the server must pass Upgrade and Connection on",
		Details: map[string]any{"field": "Upgrade"},
	}
}

// ForeignOrigin returns the error for a web page that may not open a WebSocket. what names the WebSocket, with an article.
func ForeignOrigin(what string) error {
	return &belljar.Error{
		Code: belljar.CodeForbidden, Message: "this web page may not open " + what,
		Hint: "name its origin in SANDBOX_ALLOWED_ORIGINS", Details: map[string]any{"field": "Origin"},
	}
}

// ConnWrapper is a response writer that wraps the connection when a WebSocket takes it over.
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
	conn = w.Wrap(conn)
	rw.Writer.Reset(conn)
	return conn, rw, nil
}

// TCPOf returns the TCP connection under conn; nil if there is none.
func TCPOf(conn net.Conn) *net.TCPConn {
	for {
		switch c := conn.(type) {
		case *net.TCPConn:
			return c
		case interface{ NetConn() net.Conn }: // TLS
			conn = c.NetConn()
		default:
			return nil
		}
	}
}
