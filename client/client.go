// Package client is Belljar over the network: the interfaces of package belljar, spoken to a server's HTTP API.
//
// A client is safe for concurrent use. Requests that can be repeated without doing anything twice are repeated by
// themselves when the connection breaks or the server asks to wait: those that only read, and those that make a run or
// a session, which carry an Idempotency-Key for that. A log that is followed survives broken connections: it goes on
// behind the last frame that came.
package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
)

// Options is where the server is and who calls.
type Options struct {
	// URL of the server, such as http://127.0.0.1:2355. Required.
	URL string
	// APIKey is sent with every request, as X-API-KEY; a JWT goes into Bearer instead. At most one of them.
	APIKey, Bearer string
	// Source says in the server's audit trail where requests come from; "" is client.
	Source string
	// HTTP carries the requests; nil is a client of its own. Its Timeout must be 0: runs are waited for.
	HTTP *http.Client
	// Patience is how long a request is repeated while the server cannot be reached or asks to wait; 0 is 30 s, a
	// negative one never repeats.
	Patience time.Duration
}

// Client is a [belljar.Service] over the network. Make one with [New].
type Client struct {
	opts Options
	base *url.URL
	http *http.Client

	ctx   context.Context // of what goes on behind a call's back
	stop  context.CancelFunc
	after sync.WaitGroup
}

var _ belljar.Service = (*Client)(nil)

// prefix is where S0's API stands.
const prefix = "/api/v1/sandbox"

// New returns a client. It does not talk to the server yet.
func New(opts Options) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(opts.URL, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("%q is not the address of a server", opts.URL),
			Hint: "it looks like http://127.0.0.1:2355",
		}
	}
	if opts.APIKey != "" && opts.Bearer != "" {
		return nil, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "give an API key or a bearer token, not both"}
	}
	if opts.Source == "" {
		opts.Source = "client"
	}
	if opts.Patience == 0 {
		opts.Patience = 30 * time.Second
	}
	c := &Client{opts: opts, base: base, http: opts.HTTP}
	if c.http == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 16
		c.http = &http.Client{Transport: transport}
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// Close gives up what still goes on behind finished calls, such as feeding a run's input, and waits for that. Runs and
// sessions live on.
func (c *Client) Close() error {
	c.stop()
	c.after.Wait()
	return nil
}

// Runs are the caller's runs.
func (c *Client) Runs() belljar.Runs { return runs{c} }

// Artifacts are what the caller's runs left.
func (c *Client) Artifacts() belljar.Artifacts { return artifacts{c} }

// Sessions are the caller's sessions.
func (c *Client) Sessions() belljar.Sessions { return sessions{c} }

// Node is what the server can do, and what the caller may.
func (c *Client) Node() belljar.Node { return node{c} }

// Admin is for operators.
func (c *Client) Admin() belljar.Admin { return admin{c} }

// Tokens are the server's API keys.
func (c *Client) Tokens() belljar.Tokens { return tokens{c} }

// route joins the parts of a path below the API, each escaped.
func route(parts ...string) string {
	var b strings.Builder
	b.WriteString(prefix)
	for _, part := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(part))
	}
	return b.String()
}

// authorize puts who calls on a request.
func (c *Client) authorize(h http.Header) {
	switch {
	case c.opts.Bearer != "":
		h.Set("Authorization", "Bearer "+c.opts.Bearer)
	case c.opts.APIKey != "":
		h.Set("X-API-KEY", c.opts.APIKey)
	}
	h.Set("X-Belljar-Source", c.opts.Source)
}
