// Package client is Belljar over the network: the interfaces of package belljar, spoken to a server's HTTP API. A program
// written against [belljar.Service] works with a server through a [Client] as it does with the engine in process.
//
//	c, err := client.New(client.Options{URL: "http://127.0.0.1:8080", APIKey: os.Getenv("BELLJAR_API_KEY")})
//	…
//	defer c.Close()
//	run, err := c.Runs().Start(ctx, belljar.RunRequest{RunSpec: belljar.RunSpec{
//		SpecVersion: belljar.SpecVersion, BaseImage: "host", Command: []string{"uname", "-a"},
//	}})
//	…
//	for frame, err := range c.Runs().Frames(ctx, run.ID, 1) { … } // as it is printed
//	run, output, err := belljar.Collect(ctx, c.Runs(), run.ID)    // or all at once
//
// # What goes wrong by itself
//
// Requests that can be repeated without doing anything twice are repeated when the connection breaks, when the server
// says when to come back, and when something before it says that it is away: those that only read, those that can be
// done twice, and those that make a run or a session, which carry an Idempotency-Key for that. Options.Patience bounds
// it. Only a server that has never answered is not waited for, if nobody listens at its address. What must not be done
// twice, such as renaming a file or making an API key, is repeated only where the server has done nothing of it: it was not
// there, or had been asked too often. Uploads are not repeated at all: the server takes all of an upload or nothing, so that
// the caller can.
//
// A log that is followed survives broken connections and restarts of the server: it goes on behind the last frame that
// came, without a gap and without a duplicate.
//
// The input of a run (RunRequest.Input) is sent behind Start's back. How much the server took is not known when that
// connection breaks, so the run is cancelled then; so is one whose input is larger than the server takes. Frames and
// Collect end with the reason. A program that ends before it has read everything is no failure.
//
// # Errors
//
// All errors of methods are [belljar.Error]: the server's as it told them, and of the client's own [belljar.CodeRuntimeUnavailable]
// for a server that cannot be reached, [belljar.CodeCanceled] and [belljar.CodeTimeout] for a context that has ended (the
// context's own error is in their chain), and [belljar.CodeInternal] for an answer that is not Belljar's.
package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belljar/belljar"
)

// Options is where the server is and who calls.
type Options struct {
	// URL of the server, such as http://127.0.0.1:8080, or unix:/run/belljar.sock. Required.
	URL string
	// APIKey is sent with every request, as X-API-KEY; a JWT goes into Bearer instead. At most one of them.
	APIKey, Bearer string
	// Source says in the server's audit trail where requests come from; "" is client.
	Source string
	// HTTP carries the requests; nil is a client of its own. Its Timeout must be 0: runs are waited for. Redirects are
	// not followed, whatever it says: the key is for this server.
	HTTP *http.Client
	// Patience is how long a request is repeated while the server is away or asks to wait, and a tenth of how long a log
	// that has begun is; 0 is 30 s, a negative one never repeats.
	Patience time.Duration
	// Silence is how long the server may say nothing while it owes an answer; 0 is 60 s.
	Silence time.Duration
}

// Client is a [belljar.Service] over the network. Make one with [New], or with [Local]. It is safe for concurrent use.
type Client struct {
	opts Options
	base *url.URL
	http *http.Client
	own  *http.Transport // closed with the client; nil if it is the caller's
	met  atomic.Bool     // the server has answered once

	local *local // this client's own server; nil for others

	ctx   context.Context // of what goes on behind a call's back
	stop  context.CancelFunc
	mu    sync.Mutex
	done  bool
	after sync.WaitGroup
	feeds map[string]*feed // by run: those under way, and those that failed
}

var _ belljar.Service = (*Client)(nil)

// prefix is where the sandbox API is.
const prefix = "/api/v1/sandbox"

// New returns a client. It does not talk to the server yet.
func New(opts Options) (*Client, error) {
	if opts.APIKey != "" && opts.Bearer != "" {
		return nil, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "give an API key or a bearer token, not both"}
	}
	if strings.ContainsAny(opts.APIKey+opts.Bearer, "\r\n\x00") {
		return nil, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "the API key is more than one line"}
	}
	if opts.Source == "" {
		opts.Source = "client"
	}
	if opts.Patience == 0 {
		opts.Patience = 30 * time.Second
	}
	if opts.Silence <= 0 {
		opts.Silence = time.Minute
	}
	c := &Client{opts: opts, feeds: map[string]*feed{}}
	socket, err := c.locate(opts.URL)
	if err != nil {
		return nil, err
	}
	carrier := http.Client{}
	if opts.HTTP != nil {
		if socket != "" {
			return nil, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "a unix socket needs the client's own transport"}
		}
		carrier = *opts.HTTP
	} else {
		c.own = transport(socket)
		carrier.Transport = c.own
	}
	carrier.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &carrier
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// locate sets the server's address, and returns its socket file if it has one.
func (c *Client) locate(address string) (socket string, err error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok && path != "" {
		c.base = &url.URL{Scheme: "http", Host: "belljar"}
		return path, nil
	}
	base, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return "", &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("%q is not the address of a server", address),
			Details: map[string]any{"field": "url"}, Hint: "it looks like http://127.0.0.1:8080",
		}
	}
	c.base = base
	return "", nil
}

// transport carries requests over the network, or to a socket file.
func transport(socket string) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
		MaxIdleConns: 64, MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
		// A busy server takes a while to look at what a body is for; who does not wait is cut off in the midst of it, and may
		// not hear why.
		ExpectContinueTimeout: 10 * time.Second,
	}
	if socket != "" {
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		}
	}
	return t
}

// Close gives up what still goes on behind finished calls, such as feeding a run's input, and waits for that. Runs and
// sessions live on, but for those of a client that [Local] made, whose server ends with them. It may be called twice; both
// calls wait.
func (c *Client) Close() error {
	c.mu.Lock()
	c.done = true
	c.mu.Unlock()
	c.stop()
	c.after.Wait()
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
	if c.local != nil {
		return c.local.end(endTime)
	}
	return nil
}

var errClosed = errors.New("the client is closed")

// behind does something behind a call's back; false if the client is closed.
func (c *Client) behind(do func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return false
	}
	c.after.Go(do)
	return true
}

// Runs are the caller's runs.
func (c *Client) Runs() belljar.Runs { return runs{c} }

// Artifacts are what the caller's runs left.
func (c *Client) Artifacts() belljar.Artifacts { return artifacts{c} }

// Sessions are the caller's sessions.
func (c *Client) Sessions() belljar.Sessions { return sessions{c} }

// Files are the workspaces of the caller's sessions.
func (c *Client) Files() belljar.Files { return files{c} }

// Terminals are those in the caller's sessions.
func (c *Client) Terminals() belljar.Terminals { return terminals{c} }

// Node is what the server can do, and what the caller may.
func (c *Client) Node() belljar.Node { return node{c} }

// Admin is for operators.
func (c *Client) Admin() belljar.Admin { return admin{c} }

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

// host is the server as people know it.
func (c *Client) host() string {
	if path, ok := strings.CutPrefix(c.opts.URL, "unix:"); ok {
		return path
	}
	return c.base.Host
}
