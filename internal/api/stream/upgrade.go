package stream

import (
	"net"
	"net/http"

	"github.com/coder/websocket"

	"github.com/belljar/belljar/internal/api"
)

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
