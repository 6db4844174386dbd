package upstream_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/upstream"
)

// late is a context whose deadline is when the test decides.
type late struct {
	context.Context
	over chan struct{}
}

func (l late) Done() <-chan struct{} { return l.over }

func (l late) Err() error {
	select {
	case <-l.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// A caller that waits no longer while the server works does not affect the server's state, unless its deadline is this package's own.
func TestDeadlinesOfCallers(t *testing.T) {
	arrived := make(chan struct{}, 1)
	g := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	}, func(o *upstream.Options) { o.Breaker = &upstream.Breaker{Failures: 1, Rest: time.Hour} })
	ask := func(do func(context.Context) error) error {
		ctx := late{t.Context(), make(chan struct{})}
		result := make(chan error, 1)
		go func() { result <- do(ctx) }()
		<-arrived
		close(ctx.over)
		return <-result
	}
	err := ask(func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, "GET", g.URL("/a", nil), nil)
		if err == nil {
			_, err = g.RoundTrip(r)
		}
		return err
	})
	if upstream.ReasonOf(err) != upstream.Unreachable || g.Circuit() != upstream.Closed {
		t.Fatalf("%v, and the circuit is %s", err, g.Circuit())
	}
	err = ask(func(ctx context.Context) error {
		_, err := g.Do(ctx, upstream.Call{Method: "POST", Path: "/a"})
		return err
	})
	if upstream.ReasonOf(err) != upstream.Unreachable || g.Circuit() != upstream.Open {
		t.Errorf("%v, and the circuit is %s", err, g.Circuit())
	}
}
