package client

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/belljar/belljar"
)

// A client forgets failed input once the reader of its run has the error.
func TestFailedFeedIsForgotten(t *testing.T) {
	c := &Client{feeds: map[string]*feed{}}
	f := &feed{c: c, id: "run", done: make(chan struct{})}
	c.feeds["run"] = f
	f.finish(errClosed)
	if err := c.awaitFeed(t.Context(), "run"); err != errClosed || len(c.feeds) != 0 {
		t.Errorf("%v, %d left", err, len(c.feeds))
	}
}

// The address of the API is also one of its server.
func TestAddressOfTheAPI(t *testing.T) {
	for path, want := range map[string]string{"/api/v1/sandbox": "", "/p/api/v1/sandbox/": "/p", "/p/": "/p"} {
		c, err := New(Options{URL: "http://h" + path})
		if err != nil {
			t.Fatal(err)
		}
		if c.base.Path != want {
			t.Errorf("%s: %q, not %q", path, c.base.Path, want)
		}
		_ = c.Close()
	}
}

// A server that waits for the reader of its response is not silent.
func TestResponseWaitsForReader(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "body") }))
	t.Cleanup(s.Close)
	c, err := New(Options{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	resp, err := c.attempt(t.Context(), request{method: http.MethodGet, path: "/"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Body.(*receiving).w.timer.Stop() {
		t.Error("the timer of the server's silence runs before the first read")
	}
}

// The run of an earlier request gets its input only once, even if the server first refuses the repeated request.
func TestReplayAfterRefusal(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := `{"id":"run","phase":"running","interactive":true,"details":{"idempotency_status":"replayed"}}`
		if asked.Add(1) == 1 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			answer = `{"error":{"code":"rate_limited","message":"too many"}}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	c, err := New(Options{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	run, err := c.Runs().Start(t.Context(), belljar.RunRequest{IdempotencyKey: "key", Input: strings.NewReader("input")})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || run.ID != "run" || len(c.feeds) != 0 {
		t.Errorf("%+v, %v, %d inputs", run, err, len(c.feeds))
	}
}

// breaking is a listener that closes its first connection.
type breaking struct {
	net.Listener
	broken bool
}

func (b *breaking) Accept() (net.Conn, error) {
	conn, err := b.Listener.Accept()
	if err == nil && !b.broken {
		b.broken = true
		_ = conn.Close()
		return b.Listener.Accept()
	}
	return conn, err
}

// The run of an earlier request gets its input only once, even if a connection breaks before the repeated request is sent.
func TestReplayAfterBrokenHandshake(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"run","phase":"running","interactive":true,"details":{"idempotency_status":"replayed"}}`)
	}))
	broken := &breaking{Listener: s.Listener}
	s.Listener = broken
	s.StartTLS()
	t.Cleanup(s.Close)
	c, err := New(Options{URL: s.URL, HTTP: s.Client()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	run, err := c.Runs().Start(t.Context(), belljar.RunRequest{IdempotencyKey: "key", Input: strings.NewReader("input")})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || run.ID != "run" || len(c.feeds) != 0 || !broken.broken {
		t.Errorf("%+v, %v, %d inputs", run, err, len(c.feeds))
	}
}
