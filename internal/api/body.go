package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/belljar/belljar"
)

// minBodyRate is how many bytes a second a client must send, on average after the first idle time.
const minBodyRate = 512

// body is a request body with a size limit and a minimum rate. Errors of Read are [belljar.Error]s that a door can
// return unchanged.
type body struct {
	in    io.ReadCloser
	conn  *http.ResponseController
	idle  time.Duration // timeout of one Read
	limit int64
	read  int64
	begun time.Time // of the first Read
	err   error
}

// LimitBody replaces the edge's limit on the size of the request body, in bytes. Call it before reading.
func LimitBody(w http.ResponseWriter, r *http.Request, limit int64) {
	if rec := recordOf(r.Context()); rec != nil {
		if rec.body != nil {
			rec.body.limit = limit
		}
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, limit) // a door without an edge, as in a test
}

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if room := b.limit - b.read; int64(len(p)) > room+1 {
		p = p[:room+1] // one more than allowed, to detect a body that is too large
	}
	now := time.Now() // the kernel's clock applies to deadlines, not the edge's
	if b.begun.IsZero() {
		b.begun = now
	}
	deadline := now.Add(b.idle)
	if pace := b.begun.Add(b.idle + time.Duration(b.read/minBodyRate)*time.Second); pace.Before(deadline) {
		deadline = pace
	}
	b.deadline(deadline)
	n, err := b.in.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		b.deadline(time.Time{}) // net/http reads in the background; a deadline would cancel a long response
	}
	b.read += int64(n)
	switch {
	case b.read > b.limit:
		n -= int(b.read - b.limit)
		err = &belljar.Error{
			Code: belljar.CodeTooLarge, Message: fmt.Sprintf("request body is limited to %d bytes here", b.limit),
			Details: map[string]any{"field": "body", "maximum": b.limit},
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: "request body came too slowly", Err: err,
			Details: map[string]any{"field": "body", "received": b.read, "minimum_bytes_per_sec": minBodyRate, "idle_timeout_sec": b.idle.Seconds()},
		}
	}
	b.err = err
	return n, err
}

func (b *body) Close() error { return b.in.Close() }

// start sets the first deadline, for doors that never read the body.
func (b *body) start() { b.deadline(time.Now().Add(b.idle)) }

// finish reads the rest of a body for at most lingerTime. lingerPause limits the wait for each piece.
const (
	lingerTime  = 10 * time.Second
	lingerPause = time.Second
)

// finish is called after the response. To reuse the connection, net/http drains the unread rest if it is short; a client
// that sends nothing must not delay it.
//
// If the request was refused, finish sends the response and reads all of the rest. Clients that send everything before they read
// would lose the response otherwise: a connection that is closed with unread bytes is reset (RFC 9112 section 9.6).
func (b *body) finish(w *writer) {
	if errors.Is(b.err, io.EOF) {
		return
	}
	begun := time.Now()
	b.deadline(begun.Add(lingerPause))
	if w.status < http.StatusBadRequest {
		return
	}
	rest := make([]byte, 32<<10)
	for w.Flush(); time.Since(begun) < lingerTime; b.deadline(time.Now().Add(lingerPause)) {
		if _, err := b.in.Read(rest); err != nil {
			return
		}
	}
}

// deadline bounds the next reads. A writer without deadlines has no connection, and so no slow client.
func (b *body) deadline(t time.Time) { _ = b.conn.SetReadDeadline(t) }
