package stream

import (
	"bufio"
	"net"
	"net/http"
	"strings"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
)

// upgrading reports whether a request asks for a WebSocket; the error says how to do so.
func upgrading(w http.ResponseWriter, r *http.Request) error {
	for _, token := range strings.Split(strings.Join(r.Header.Values("Connection"), ","), ",") {
		if strings.EqualFold(strings.TrimSpace(token), "upgrade") && strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			return nil
		}
	}
	w.Header().Set("Upgrade", "websocket")
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: "this is a WebSocket, and the request does not ask for one",
		Hint: "connect by WebSocket, or ask for …/logs", Details: map[string]any{"field": "Upgrade"},
	}
}

// upgrade takes the connection over and puts a wire beneath its WebSocket. After an error the answer is written.
func (d *Door) upgrade(w http.ResponseWriter, r *http.Request, onSlow func()) (*websocket.Conn, *wire, error) {
	h := &hijacked{ResponseWriter: w, wrap: func(conn net.Conn) *wire {
		return newWire(conn, d.opts.WriteTimeout, lingering, &d.lend, onSlow)
	}}
	conn, err := websocket.Accept(h, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // the origin has been looked at
		CompressionMode:    websocket.CompressionDisabled,
	})
	return conn, h.wire, err
}

// hijacked gives the WebSocket library a wire in place of the connection.
type hijacked struct {
	http.ResponseWriter
	wrap func(net.Conn) *wire
	wire *wire
}

// Hijack takes the connection over.
func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.wire = h.wrap(conn)
	rw.Writer.Reset(h.wire)
	return h.wire, rw, nil
}
