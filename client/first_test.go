package client_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
)

// outage fails its first requests, one with each error, and then answers 404.
type outage struct {
	errs  []error
	tries int
}

func (f *outage) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.tries++; f.tries <= len(f.errs) {
		return nil, f.errs[f.tries-1]
	}
	return &http.Response{
		StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"error":{"code":"not_found","message":"gone"}}`)),
	}, nil
}

// TestFirstRequest: where nothing listens, the first request fails at once. One that was sent survives a restart of its server.
func TestFirstRequest(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for name, tt := range map[string]struct {
		errs  []error
		tries int
		code  belljar.Code
	}{
		"nothing listens": {[]error{refused}, 1, belljar.CodeRuntimeUnavailable},
		"a restart":       {[]error{io.ErrUnexpectedEOF, refused, refused}, 4, belljar.CodeNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &outage{errs: tt.errs}
				c, err := client.New(client.Options{URL: "http://belljar.invalid", HTTP: &http.Client{Transport: server}})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := c.Runs().Get(context.Background(), "x"); belljar.CodeOf(err) != tt.code || server.tries != tt.tries {
					t.Errorf("%v, after %d tries", err, server.tries)
				}
			})
		})
	}
}
