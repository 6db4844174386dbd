package client_test

import (
	"context"
	"io"
	"net/http"
	"strings"
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
