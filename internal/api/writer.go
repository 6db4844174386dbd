package api

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
)

// writer counts what is answered. Everything that the writer beneath can do it can do too, through Unwrap.
type writer struct {
	http.ResponseWriter
	status int // 0 until the header is written
	bytes  int64
}

// Unwrap lets http.ResponseController reach the writer beneath.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader notes the status. What is JSON is about somebody's runs: no cache keeps it unless a door says so.
func (w *writer) WriteHeader(status int) {
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status = status
		h := w.Header()
		if h.Get("Cache-Control") == "" && strings.Contains(h.Get("Content-Type"), "json") {
			h.Set("Cache-Control", "no-store")
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom keeps sendfile possible.
func (w *writer) ReadFrom(r io.Reader) (int64, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	n, err := io.Copy(w.ResponseWriter, r)
	w.bytes += n
	return n, err
}

// Flush sends what is buffered.
func (w *writer) Flush() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush() // a writer that cannot has nothing buffered
}

// Hijack gives the connection away, as to a WebSocket.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}
