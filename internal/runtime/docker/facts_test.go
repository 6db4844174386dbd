package docker

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A caller that leaves while the engine is asked says nothing about the engine. An engine that cannot be reached is away.
func TestFactsOutlastACallerThatLeaves(t *testing.T) {
	asked := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		asked <- struct{}{}
		<-q.Context().Done()
	}))
	t.Cleanup(server.Close)
	r := connected(t, "tcp://"+server.Listener.Addr().String(), time.Minute)
	known := &facts{at: time.Now()}
	r.facts = known
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-asked
		leave()
	}()
	if _, err := r.ask(ctx); err == nil || r.last() != known {
		t.Errorf("after a caller that has left: %v, %v", r.last(), err)
	}
	server.Close()
	if _, err := r.ask(t.Context()); err == nil || r.last() != nil {
		t.Errorf("an engine that is away: %v, %v", r.last(), err)
	}
}
