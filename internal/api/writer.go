package api

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// piece is how much of an answer is written under one deadline, in bytes: with the edge's minute a client must take
// 17 KiB a second.
const piece = 1 << 20

// writer counts what is answered, and gives up on a client that does not take it. Everything that the writer beneath can
// do it can do too, through Unwrap.
type writer struct {
	http.ResponseWriter
	idle   time.Duration // a piece may take so long
	status int           // 0 until the header is written
	bytes  int64
	pushed time.Time // when the deadline was set last
	own    bool      // the door sets its own deadlines
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

func (w *writer) Write(b []byte) (written int, err error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	for {
		part := b[written:min(len(b), written+piece)]
		w.push()
		n, err := w.ResponseWriter.Write(part)
		written += n
		w.bytes += int64(n)
		if err != nil || written == len(b) {
			return written, err
		}
	}
}

// ReadFrom keeps sendfile possible. A bound that r has already is taken apart, since the kernel's way looks through one
// only.
func (w *writer) ReadFrom(r io.Reader) (written int64, err error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	bound, _ := r.(*io.LimitedReader)
	for {
		part := &io.LimitedReader{R: r, N: piece}
		if bound != nil {
			part = &io.LimitedReader{R: bound.R, N: min(bound.N, piece)}
		}
		size := part.N
		w.push()
		n, err := io.Copy(w.ResponseWriter, part)
		written += n
		w.bytes += n
		if bound != nil {
			bound.N -= n
		}
		if err != nil || n < size || size == 0 {
			return written, err
		}
	}
}

// push moves the deadline on, at most every second.
func (w *writer) push() {
	now := time.Now()
	if w.own || w.status == http.StatusSwitchingProtocols || now.Sub(w.pushed) < min(time.Second, w.idle/4) {
		return
	}
	w.pushed = now
	// A writer that cannot belongs to no connection, and there is nobody to be slow.
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(now.Add(w.idle))
}

// SetWriteDeadline is for doors whose answers are streams: they know better when a client is too slow.
func (w *writer) SetWriteDeadline(t time.Time) error {
	w.own = true
	return http.NewResponseController(w.ResponseWriter).SetWriteDeadline(t)
}

// finish bounds what net/http still has to send after the door. A deadline of the request before on this connection, or
// of the door's own, must not hit it.
func (w *writer) finish() {
	w.own, w.pushed = false, time.Time{}
	w.push()
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
