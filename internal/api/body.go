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

// body is a request's body with a bound and a pace. Errors of Read are [belljar.Error]s that a door can answer as
// they are.
type body struct {
	in    io.ReadCloser
	conn  *http.ResponseController
	idle  time.Duration // one Read may take so long
	rate  int64         // bytes a second, on average after the first idle
	limit int64
	read  int64
	begun time.Time // of the first Read
	err   error
}

// LimitBody sets how many bytes the request's body may have, in place of the edge's own bound, when that is not
// enough (uploads) or too much. Call it before reading.
func LimitBody(w http.ResponseWriter, r *http.Request, limit int64) {
	if rec := recordOf(r.Context()); rec != nil {
		if rec.body != nil {
			rec.body.limit = limit
		}
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, limit) // a door that stands alone, as in a test
}

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if room := b.limit - b.read; int64(len(p)) > room+1 {
		p = p[:room+1] // one more than allowed, to tell the end from too much
	}
	now := time.Now() // deadlines are the kernel's, whatever clock the edge has
	if b.begun.IsZero() {
		b.begun = now
	}
	deadline := now.Add(b.idle)
	if pace := b.begun.Add(b.idle + time.Duration(b.read/b.rate)*time.Second); pace.Before(deadline) {
		deadline = pace
	}
	b.deadline(deadline)
	n, err := b.in.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		b.deadline(time.Time{}) // or it would end a long answer: the server watches the connection by reading
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
			Details: map[string]any{"field": "body", "received": b.read, "minimum_bytes_per_sec": b.rate, "idle_timeout_sec": b.idle.Seconds()},
		}
	}
	b.err = err
	return n, err
}

func (b *body) Close() error { return b.in.Close() }

// open gives a door that reads nothing as much time as one that reads.
func (b *body) open() { b.deadline(time.Now().Add(b.idle)) }

// settle is called when the answer is made. What has not been read the server reads and drops, to use the connection
// again; it must not wait for one who sends nothing.
func (b *body) settle() {
	if !errors.Is(b.err, io.EOF) {
		b.deadline(time.Now().Add(time.Second))
	}
}

// deadline bounds the reads to come. A writer that cannot belongs to no connection, and there is nobody to be slow.
func (b *body) deadline(t time.Time) { _ = b.conn.SetReadDeadline(t) }
