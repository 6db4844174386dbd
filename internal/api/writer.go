package api

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// piece is how many bytes are written under one deadline: with the default of a minute, a client must read 17 KiB/s.
const piece = 1 << 20

// writer counts the bytes of the response, and fails if the client reads too slowly. Unwrap gives access to the
// underlying writer's other methods.
type writer struct {
	http.ResponseWriter
	idle   time.Duration // timeout of one piece
	status int           // 0 until the header is written
	bytes  int64

	mu       sync.Mutex // guards the deadline: a door may set it during a write
	extended time.Time  // when the deadline was last set
	own      bool       // the door sets its own deadlines
}

// Unwrap gives http.ResponseController the underlying writer.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader records the status. By default no cache may store JSON, since it is data of one user.
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
		w.extend()
		n, err := w.ResponseWriter.Write(part)
		written += n
		w.bytes += int64(n)
		if err != nil || written == len(b) {
			return written, err
		}
	}
}

// ReadFrom keeps sendfile possible. It unwraps an io.LimitedReader, since net.TCPConn unwraps only one.
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
		w.extend()
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

// extend extends the write deadline, at most once per second.
func (w *writer) extend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.own || w.status == http.StatusSwitchingProtocols || now.Sub(w.extended) < min(time.Second, w.idle/4) {
		return
	}
	w.extended = now
	// A writer without deadlines has no connection, and so no slow client.
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(now.Add(w.idle))
}

// SetWriteDeadline lets a door that streams set its own deadlines; the writer then sets none.
func (w *writer) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.own = true
	return http.NewResponseController(w.ResponseWriter).SetWriteDeadline(t)
}

// finish sets a new deadline for the bytes that net/http sends after the door returns. It replaces a deadline of the
// door, or of the connection's previous request.
func (w *writer) finish() {
	w.mu.Lock()
	w.own, w.extended = false, time.Time{}
	w.mu.Unlock()
	w.extend()
}

// Flush sends what is buffered.
func (w *writer) Flush() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush() // a writer that does not support it buffers nothing
}

// Hijack implements [http.Hijacker], for WebSockets.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}
