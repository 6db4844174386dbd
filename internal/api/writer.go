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
	status int           // 0 until the door writes the header
	bytes  int64

	edge    *Edge
	request *http.Request
	sent    bool  // the header is sent: the answer can no longer be refused
	refused bool  // an error is sent instead, and what the door writes is dropped
	broken  error // why a stream is cut; nil otherwise

	mu       sync.Mutex // guards the deadline: a door may set it during a write
	extended time.Time  // when the deadline was last set
	own      bool       // the door sets its own deadlines
}

// Unwrap gives http.ResponseController the underlying writer.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader records the status. By default no cache may store JSON, since it is data of one user. A final status is sent with the first
// bytes.
func (w *writer) WriteHeader(status int) {
	switch {
	case w.refused:
		return
	case status < 200 || w.sent:
		w.ResponseWriter.WriteHeader(status)
	}
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status = status
		h := w.Header()
		if h.Get("Cache-Control") == "" && strings.Contains(h.Get("Content-Type"), "json") {
			h.Set("Cache-Control", "no-store")
		}
	}
}

// begin sends the header.
func (w *writer) begin() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.sent && w.status >= 200 {
		w.sent = true
		w.ResponseWriter.WriteHeader(w.status)
	}
}

// Write writes b. If b is large and its caller has no room for it, Write sends an error in its place, or cuts a stream that has begun.
func (w *writer) Write(b []byte) (written int, err error) {
	if n := len(b); !w.refused && (n > largeAnswer && !w.sent || n > piece) {
		release, err := w.edge.reserveAnswer(w.request, n)
		switch {
		case err == nil:
			defer release()
		case w.sent:
			w.broken = err
		default:
			w.refuse(err)
		}
	}
	recordOf(w.request.Context()).encoded()
	if w.refused || w.broken != nil {
		return len(b), w.broken // an answer as a whole is as good as sent: the door has nothing to correct
	}
	w.begin()
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

// refuse responds with err in place of the door's answer.
func (w *writer) refuse(err error) {
	w.status = 0
	for _, name := range []string{"Cache-Control", "Content-Encoding", "ETag"} {
		w.Header().Del(name)
	}
	Fail(w, w.request, err)
	w.refused = true
}

// ReadFrom keeps sendfile possible. It unwraps an io.LimitedReader, since net.TCPConn unwraps only one.
func (w *writer) ReadFrom(r io.Reader) (written int64, err error) {
	if w.refused || w.broken != nil {
		return io.Copy(io.Discard, r)
	}
	w.begin()
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
	if w.broken != nil {
		_ = w.SetWriteDeadline(time.Now()) // so that the client cannot take what it has for the whole
		return
	}
	w.mu.Lock()
	w.own, w.extended = false, time.Time{}
	w.mu.Unlock()
	if w.status != 0 {
		w.begin() // of an answer without a body
	}
	w.extend()
}

// Flush sends what is buffered.
func (w *writer) Flush() {
	w.begin()
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
