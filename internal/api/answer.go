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

// ForAnswer reserves n bytes of the caller's share for an answer that a door makes in memory. They are released when the door writes the answer,
// whose size is then known and counts in [AnswerShares], however slow its reader is, or before by release.
func (s *Shares) ForAnswer(ctx context.Context, n int64) (release func(), err error) {
	release, err = s.Take(ctx, CallerOf(ctx).ID, n)
	if rec := recordOf(ctx); rec != nil && err == nil {
		rec.held = append(rec.held, release)
	}
	return release, err
}

// ForFiles is [Shares.ForAnswer] for an answer with files of a session. It waits for the session first: one that starts or wakes reserves
// nothing meanwhile. The request's arguments must have been checked. For others there is [belljar.FileQuery] Ready.
func (s *Shares) ForFiles(ctx context.Context, files belljar.Files, session string, n int64) (release func(), err error) {
	var e *belljar.Error
	_, err = files.Stat(ctx, session, ".")
	if err != nil && (!errors.As(err, &e) || e.Details["path"] == nil || e.Code == belljar.CodeTimeout) { // not for the folder itself
		return nil, err
	}
	return s.ForAnswer(ctx, n)
}

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
