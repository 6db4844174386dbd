package client

import (
	"cmp"
	"context"
	"time"
)

// OnRetry returns a context for calls that report retries: say receives the error before each further attempt, in the goroutine
// of the call.
func OnRetry(ctx context.Context, say func(error)) context.Context {
	return context.WithValue(ctx, retryKey{}, say)
}

type retryKey struct{}

// again waits before a call is retried after err; false if ctx ends first.
func again(ctx context.Context, pause time.Duration, err error) bool {
	if say, ok := ctx.Value(retryKey{}).(func(error)); ok {
		say(callerError(err))
	}
	return sleep(ctx, pause)
}

// reach calls connect, which opens a connection, with retries.
func reach[T any](ctx context.Context, patience time.Duration, connect func() (T, error)) (T, error) {
	for tries := (backoff{patience: patience}); ; tries.next() {
		conn, err := connect()
		pause, again := tries.after(err)
		switch {
		case err == nil:
			return conn, nil
		case !again || ctx.Err() != nil || !sleep(ctx, pause):
			return conn, cmp.Or(contextError(ctx), callerError(err))
		}
	}
}

// sayBroken reports that a call is retried, until a deadline.
func (o *Options) sayBroken(err error, until time.Time) {
	if o.Broken != nil {
		o.Broken(callerError(err), time.Until(until))
	}
}
