package client

import (
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

// sayBroken reports that a call is retried, until a deadline.
func (o *Options) sayBroken(err error, until time.Time) {
	if o.Broken != nil {
		o.Broken(callerError(err), time.Until(until))
	}
}
