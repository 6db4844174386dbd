package api

import (
	"bufio"
	"net"
	"net/http"
	"strings"
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
