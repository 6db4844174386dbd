package stream

import (
	"net"
	"net/http"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// checkUpgrade refuses a request that does not ask for a WebSocket.
func checkUpgrade(w http.ResponseWriter, r *http.Request) error {
	if api.IsWebSocket(r) {
		return nil
	}
	w.Header().Set("Upgrade", "websocket")
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: "this is a WebSocket, and the request does not ask for one",
		Hint: "connect by WebSocket, or ask for …/logs; a proxy in front of the server must pass Upgrade and Connection on", Details: map[string]any{"field": "Upgrade"},
	}
}

// upgrade upgrades the connection to a WebSocket over a wire. After an error the answer is already written.
func (d *Door) upgrade(w http.ResponseWriter, r *http.Request, onSlow func()) (*websocket.Conn, *wire, error) {
	var line *wire
	h := &api.ConnWrapper{ResponseWriter: w, Wrap: func(conn net.Conn) net.Conn {
		line = newWire(conn, d.opts.WriteTimeout, slowGrace, &d.buffers, onSlow)
		return line
	}}
	conn, err := websocket.Accept(h, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // the door has checked the origin
		CompressionMode:    websocket.CompressionDisabled,
	})
	return conn, line, err
}
