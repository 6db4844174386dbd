// Package client implements the interfaces of package belljar over a server's HTTP API. A program that uses
// [belljar.Service] works the same with a [Client] as with the engine in process.
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
// # Retries
//
// The client retries idempotent requests when the connection breaks, when the server sends Retry-After, and when a proxy
// reports that the server is unavailable. Idempotent are reads, and requests to create a run or a session, which carry an
// Idempotency-Key. Options.Patience limits the retries. If no server listens at the address and none has ever responded,
// the request fails immediately. Other requests, such as renaming a file or creating an API key, are retried only if the
// server has not processed them: it could not be reached, or it refused them for the rate limit. Uploads are never
// retried. The server stores all of an upload or nothing, so the caller can retry.
//
// Following a log survives broken connections and restarts of the server: it continues after the last frame, without gaps
// and duplicates.
//
// The input of a run (RunRequest.Input) is sent in the background after Start. If that connection breaks, it is unknown
// how much the server received, so the run is cancelled; so is a run whose input exceeds the server's limit, or could not
// be read to its end. Frames and Collect then return the reason. It is not an error if a program ends before it has read
// all input.
//
// # Errors
//
// All errors of methods are [belljar.Error]. Errors of the server are returned unchanged. The client's own are
// [belljar.CodeRuntimeUnavailable] if the server cannot be reached, [belljar.CodeCanceled] and [belljar.CodeTimeout] after
// the end of a context (they wrap the context's error), and [belljar.CodeInternal] for a response that is not Belljar's.
package client

import (
	"cmp"
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

// Options configure a [Client].
type Options struct {
	// URL of the server, such as http://127.0.0.1:8080, or unix:/run/belljar.sock. Required.
	URL string
	// APIKey is sent with every request as X-API-KEY, Bearer as a bearer token, such as a JWT. Set at most one.
	APIKey, Bearer string
	// Source is the source of the requests in the server's audit trail; "" means client.
	Source string
	// HTTP sends the requests; nil means a client of its own. Its Timeout must be 0, since requests wait for runs.
	// Redirects are never followed, so that the key is sent to this server only.
	HTTP *http.Client
	// Patience limits how long after its first failure a request is retried while the server is unavailable or asks to wait.
	// Following a log is retried for ten times as long, once it has begun. 0 means 30 s, a negative value disables retries.
	Patience time.Duration
	// Broken is called once for each request and each break of a log that a retry does not fix at once, with how long the client
	// tries further; nil does nothing.
	Broken func(err error, left time.Duration)
	// Asked is called when the files of a run in a session wait for an operator's approval; nil does nothing. For a run, the log reports it.
	Asked func(a belljar.Approval)
	// Silence is the longest pause while the client waits for bytes of a response; 0 means 60 s.
	Silence time.Duration
}

// Client is a [belljar.Service] over the network. Make one with [New], or with [Local]. It is safe for concurrent use.
type Client struct {
	opts Options
	base *url.URL
	http *http.Client
	sock *http.Client    // for WebSockets
	own  *http.Transport // closed with the client; nil if it is the caller's
	met  atomic.Bool     // the address has accepted a connection once

	local *local // this client's own server; nil for others

	ctx   context.Context // of background work
	stop  context.CancelFunc
	mu    sync.Mutex
	done  bool
	after sync.WaitGroup   // background work
	feeds map[string]*feed // by run: active and failed ones
}

var _ belljar.Service = (*Client)(nil)

// prefix is the path prefix of the sandbox API.
const prefix = "/api/v1/sandbox"

// New returns a client. It does not connect to the server.
func New(opts Options) (*Client, error) {
	if opts.APIKey != "" && opts.Bearer != "" {
		return nil, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "give an API key or a bearer token, not both"}
	}
	opts.APIKey, opts.Bearer = strings.TrimSpace(opts.APIKey), strings.TrimSpace(opts.Bearer) // a file of a key ends with a line break
	if strings.ContainsAny(opts.APIKey+opts.Bearer, "\r\n\x00") {
		return nil, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "the API key is more than one line"}
	}
	opts.Source = cmp.Or(opts.Source, "client")
	opts.Patience = cmp.Or(opts.Patience, 30*time.Second)
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
	c.sock = webSockets(c.http, c.base)
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// locate sets the server's address and returns its unix socket, "" if it has none.
func (c *Client) locate(address string) (socket string, err error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok && path != "" {
		c.base = &url.URL{Scheme: "http", Host: "belljar"}
		return path, nil
	}
	address = strings.TrimSuffix(strings.TrimRight(address, "/"), prefix) // it may be the API's
	base, err := url.Parse(strings.TrimRight(address, "/"))
	wrong := err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.RawQuery != "" || base.Fragment != ""
	if err == nil && base.User != nil || wrong && strings.Contains(address, "@") { // the error must not repeat a password
		return "", &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: "the address of the server has a user or a password",
			Details: map[string]any{"field": "url"}, Hint: "leave it out, and give an API key",
		}
	}
	if wrong {
		return "", &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("%q is not the address of a server", address),
			Details: map[string]any{"field": "url"}, Hint: "it looks like http://127.0.0.1:8080",
		}
	}
	c.base = base
	return "", nil
}

// transport returns a transport for the network, or for a unix socket.
func transport(socket string) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
		MaxIdleConns: 64, MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
		// A busy server may need a while to check the headers. Without the wait it would cut a refused body off, and the client
		// might not get the reason.
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

// Close ends the client's background work, such as sending a run's input, and waits for it. Runs and sessions continue,
// except those of a client from [Local], whose server ends. Further calls wait, too.
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
		return c.local.end(stopTimeout)
	}
	return nil
}

var errClosed = errors.New("the client is closed")

// background runs do in the background; false if the client is closed.
func (c *Client) background(do func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return false
	}
	c.after.Go(do)
	return true
}

// Runs gives access to the caller's runs.
func (c *Client) Runs() belljar.Runs { return runs{c} }

// Artifacts gives access to the artifacts of the caller's runs.
func (c *Client) Artifacts() belljar.Artifacts { return artifacts{c} }

// Sessions gives access to the caller's sessions.
func (c *Client) Sessions() belljar.Sessions { return sessions{c} }

// Files gives access to the workspaces of the caller's sessions.
func (c *Client) Files() belljar.Files { return files{c} }

// Terminals gives access to the terminals in the caller's sessions.
func (c *Client) Terminals() belljar.Terminals { return terminals{c} }

// Ports gives access to the ports that programs in the caller's sessions listen on.
func (c *Client) Ports() belljar.Ports { return ports{c} }

// Usage gives access to the usage of the caller's running sandboxes.
func (c *Client) Usage() belljar.Usages { return usages{c} }

// Node describes the server and the caller.
func (c *Client) Node() belljar.Node { return node{c} }

// Admin is for operators.
func (c *Client) Admin() belljar.Admin { return admin{c} }

// route returns a path of the API; it escapes each part.
func route(parts ...string) string {
	var b strings.Builder
	b.WriteString(prefix)
	for _, part := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(part))
	}
	return b.String()
}

// authorize sets the headers that identify the caller.
func (c *Client) authorize(h http.Header) {
	switch {
	case c.opts.Bearer != "":
		h.Set("Authorization", "Bearer "+c.opts.Bearer)
	case c.opts.APIKey != "":
		h.Set("X-API-KEY", c.opts.APIKey)
	}
	h.Set("X-Belljar-Source", c.opts.Source)
}

// host is the server's address for messages.
func (c *Client) host() string {
	if path, ok := strings.CutPrefix(c.opts.URL, "unix:"); ok {
		return path
	}
	return c.base.Host
}
