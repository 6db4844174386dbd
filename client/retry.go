package client

import (
	"context"
	"time"
)

// OnRetry returns a context for calls whose caller wants to know that the server does not answer: say gets the error before each
// further try, in the goroutine of the call.
func OnRetry(ctx context.Context, say func(error)) context.Context {
	return context.WithValue(ctx, retryKey{}, say)
}

type retryKey struct{}

// again waits before a call is tried again after err; false if ctx ends before.
func again(ctx context.Context, pause time.Duration, err error) bool {
	if say, ok := ctx.Value(retryKey{}).(func(error)); ok {
		say(callerError(err))
	}
	return sleep(ctx, pause)
}

// sayBroken reports a call that is tried again, until a deadline.
func (o *Options) sayBroken(err error, until time.Time) {
	if o.Broken != nil {
		o.Broken(callerError(err), time.Until(until))
	}
}
