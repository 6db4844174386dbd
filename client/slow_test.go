package client_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
)

// delayed responds to each request after a delay.
type delayed time.Duration

func (d delayed) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(time.Duration(d)):
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader("{}")), Request: r,
	}, nil
}

// TestSlowAnswers: requests that take minutes on a server do not time out.
func TestSlowAnswers(t *testing.T) {
	for name, call := range map[string]func(context.Context, *client.Client) error{
		"snapshot": func(ctx context.Context, c *client.Client) error {
			_, err := c.Snapshots().Make(ctx, "s", belljar.SnapshotSpec{})
			return err
		},
		"fork": func(ctx context.Context, c *client.Client) error {
			_, err := c.Snapshots().Fork(ctx, "s", belljar.ForkSpec{Count: 8})
			return err
		},
		"hibernate": func(ctx context.Context, c *client.Client) error {
			_, err := c.Sessions().Hibernate(ctx, "s", belljar.HibernateSpec{})
			return err
		},
		"export": func(ctx context.Context, c *client.Client) error {
			return c.Snapshots().Export(ctx, "s", io.Discard)
		},
		"presets": func(ctx context.Context, c *client.Client) error {
			_, err := c.Node().NetworkPresets(ctx, "host")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := client.New(client.Options{URL: "http://belljar.invalid", HTTP: &http.Client{Transport: delayed(150 * time.Second)}})
				if err == nil {
					err = call(t.Context(), c)
				}
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// lateToFail breaks off the first request of each method and path after longer than the client's patience, and answers 404 to the next.
type lateToFail struct {
	mu   sync.Mutex
	keys map[string][]string // Idempotency-Keys by method and path
}

func (l *lateToFail) RoundTrip(r *http.Request) (*http.Response, error) {
	what := r.Method + " " + r.URL.Path
	l.mu.Lock()
	l.keys[what] = append(l.keys[what], r.Header.Get("Idempotency-Key"))
	tries := len(l.keys[what])
	l.mu.Unlock()
	if tries == 1 {
		time.Sleep(31 * time.Second)
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{
		StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"error":{"code":"not_found","message":"gone"}}`)),
	}, nil
}

// TestPatienceStartsAtFailure: a request whose first try takes longer than the patience is retried, under its key.
func TestPatienceStartsAtFailure(t *testing.T) {
	for name, call := range map[string]func(context.Context, *client.Client) error{
		"read": func(ctx context.Context, c *client.Client) error { _, err := c.Runs().Get(ctx, "x"); return err },
		"start": func(ctx context.Context, c *client.Client) error {
			_, err := c.Runs().Start(ctx, belljar.RunRequest{RunSpec: belljar.RunSpec{SpecVersion: belljar.SpecVersion, Command: []string{"true"}}})
			return err
		},
		"session": func(ctx context.Context, c *client.Client) error {
			_, err := c.Sessions().Create(ctx, belljar.SessionRequest{})
			return err
		},
		"attach": func(ctx context.Context, c *client.Client) error {
			_, err := c.Terminals().Attach(ctx, "x")
			return err
		},
		"port": func(ctx context.Context, c *client.Client) error { _, err := c.Ports().Dial(ctx, "x", 80); return err },
		"log": func(ctx context.Context, c *client.Client) (err error) {
			for _, err = range c.Runs().Frames(ctx, "x", 1) {
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &lateToFail{keys: map[string][]string{}}
				c, err := client.New(client.Options{URL: "http://belljar.invalid", HTTP: &http.Client{Transport: server}})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if err := call(t.Context(), c); belljar.CodeOf(err) != belljar.CodeNotFound {
					t.Errorf("%v", err)
				}
				for what, keys := range server.keys {
					if len(keys) != 2 || keys[0] != keys[1] || strings.HasPrefix(what, "POST") && keys[0] == "" {
						t.Errorf("%s: keys %q", what, keys)
					}
				}
			})
		})
	}
}
