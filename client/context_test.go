//go:build linux

package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/internal/service"
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

// TestEndedWaitForApproval: a context that ends while a large upload's session waits for an operator gives such an error, too.
func TestEndedWaitForApproval(t *testing.T) {
	ctx, cancel := context.WithCancelCause(within(t))
	cause := errors.New("enough of this")
	c := newWorld(t, nil, func(o *service.Options) {
		o.Policy = service.DefaultPolicy()
		o.Policy.Approval = []string{"cpu>0.5"}
	}).client(func(o *client.Options) { o.Asked = func(belljar.Approval) { cancel(cause) } })
	req := shell("true")
	req.Upload = archive(t, map[string]string{"a": strings.Repeat("x", 2<<20)})
	_, err := c.Runs().Start(ctx, req)
	if want(t, err, belljar.CodeCanceled); !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
		t.Error(err)
	}
}
