package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/belljar/belljar"
)

// largeAnswer is the size, in bytes, above which an answer counts in its caller's share. Doors encode an answer in memory and write it at
// once; a stream writes smaller pieces.
const largeAnswer = 256 << 10

// AnswerShares returns the shares for large answers: 64 MiB per user. None waits, since it is in memory already. They differ from the shares
// for bodies, so that no request waits for its own body.
func AnswerShares() *Shares { return NewShares(64<<20, 0) }

// reserveAnswer reserves the caller's share for an answer of n bytes. The error is for the caller.
func (e *Edge) reserveAnswer(r *http.Request, n int) (release func(), err error) {
	rec := recordOf(r.Context())
	caller := rec.caller.Load()
	if caller == nil { // what the public may read is the same for all
		return func() {}, nil
	}
	// After a revocation or a disconnection, the write fails by itself.
	release, err = e.opts.Answers.Take(context.WithoutCancel(r.Context()), caller.ID, int64(n))
	var limited *belljar.Error
	repeatable := r.Method == http.MethodGet || r.Method == http.MethodHead || rec.reads.Load() || r.Header.Get("Idempotency-Key") != ""
	if errors.As(err, &limited) && !repeatable { // clients repeat any request that is rate_limited
		err = &belljar.Error{
			Code: belljar.CodeTooLarge, Message: "the answer is too large while others of yours are unread",
			Details: map[string]any{"size": n, "maximum": limited.Details["maximum"]},
			Hint:    "the request was executed: look for its effect before you send it again, and read your answers to their end",
		}
	}
	return release, err
}
