package file

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/queue"
)

// answerTime bounds an operation without contents.
const answerTime = time.Minute

// errAnswerTime ends an operation that takes too long.
var errAnswerTime = errors.New("the sandbox did not answer in time")

// use is one use of a session's workspace.
type use struct {
	Workspace
	*box.Box
	files *Files
	ctx   context.Context // ends with the caller's context, with the session, and with the timeout
	end   func()
}

// beginIf is begin, and asks ready, if it is not nil, once the session is usable.
func (v view) beginIf(ctx context.Context, id string, ready func() error) (*use, error) {
	u, err := v.begin(ctx, id)
	if err == nil && ready != nil {
		if err = ready(); err != nil {
			u.end()
		}
	}
	return u, err
}

// begin begins an operation without contents.
func (v view) begin(ctx context.Context, id string) (*use, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, errAnswerTime)
	u, err := v.stream(ctx, id)
	if err != nil {
		cancel()
		if errors.Is(err, errAnswerTime) { // the session is still being made
			err = &belljar.Error{Code: belljar.CodeTimeout, Message: errAnswerTime.Error(), Details: map[string]any{"session_id": id}, Err: err}
		}
		return nil, err
	}
	end := u.end
	u.end = func() {
		end()
		cancel()
	}
	return u, nil
}

// stream begins an operation that has no timeout of its own.
func (v view) stream(ctx context.Context, id string) (*use, error) {
	w, err := v.opts.Acquire(ctx, v.caller, id)
	if err != nil {
		return nil, err
	}
	u := &use{Workspace: w, Box: w.Box(), files: v.Files}
	var stop context.CancelCauseFunc
	u.ctx, stop = context.WithCancelCause(ctx)
	// The end of a session does not wait for a slow sender or reader: it cancels the operation.
	release := sync.OnceFunc(w.Release)
	unhook := context.AfterFunc(w.Context(), func() {
		stop(context.Cause(w.Context()))
		release()
	})
	u.end = func() {
		unhook()
		stop(nil)
		release()
	}
	return u, nil
}

// flows keeps a session alive while bytes flow, at most once a second. It returns the time of the last activity.
func (u *use) flows(last time.Time) time.Time {
	now := u.files.opts.Now()
	if now.Sub(last) < time.Second {
		return last
	}
	u.KeepAlive()
	return now
}

// ended returns the error of an operation whose session has ended.
func (u *use) ended() error { return u.files.opts.Ended(u.Context(), u.Session()) }

// wrote records that files were written to a workspace.
func (v view) wrote(u *use, bytes, files int64) {
	state := u.Session()
	v.opts.Record(event.Event{
		Name: event.Uploaded, Caller: v.caller, Session: &state, Runtime: state.Runtime,
		Kind: string(belljar.UploadFile), Count: bytes, Files: files,
	})
}

// turn waits until one of at most so many operations of the caller at the same time may begin.
func (v view) turn(ctx context.Context, q *queue.Queue, most int, patience time.Duration, what string) (*queue.Ticket, error) {
	late := time.After(patience)
	turn, err := q.Enter(v.caller.ID, most)
	if err == nil {
		select {
		case <-turn.Ready():
			return turn, nil
		case <-ctx.Done():
			turn.Leave()
			return nil, context.Cause(ctx)
		case <-late:
			turn.Leave()
		}
	}
	return nil, &belljar.Error{Code: belljar.CodeRateLimited, Message: "too many " + what + " at once", Hint: "try again in a moment"}
}
