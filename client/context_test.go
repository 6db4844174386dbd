//go:build linux

package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/belljar/belljar"
)

// TestEndedContext: the error of a context that has ended has the context's own error and its cause.
func TestEndedContext(t *testing.T) {
	c := newWorld(t, nil).client()
	cause := errors.New("enough of this")
	canceled, cancel := context.WithCancelCause(within(t))
	cancel(cause)
	plain, end := context.WithCancel(within(t))
	end()
	late, stop := context.WithTimeoutCause(within(t), 0, cause)
	defer stop()
	for name, test := range map[string]struct {
		ctx   context.Context
		code  belljar.Code
		is    error
		cause error
	}{
		"canceled":              {plain, belljar.CodeCanceled, context.Canceled, context.Canceled},
		"canceled with a cause": {canceled, belljar.CodeCanceled, context.Canceled, cause},
		"late with a cause":     {late, belljar.CodeTimeout, context.DeadlineExceeded, cause},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.Node().Me(test.ctx)
			if want(t, err, test.code); !errors.Is(err, test.is) || !errors.Is(err, test.cause) {
				t.Error(err)
			}
		})
	}
}
