package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxHead      = 64 << 10        // of a request or an answer
	maxHeaders   = 1000            // in a head: empty ones take 40 times their size in memory
	idlePatience = 2 * time.Minute // between two requests
)

// carryHTTP terminates the program's HTTP and speaks its own to the host, so that both parse each request the same way and every
// request's Host is the host.
func (c *conn) carryHTTP(stream Stream, target net.Conn) Reason {
	return c.carryRequests(stream, &proxy{c: c, first: target, scheme: "http", port: ":80"})
}

// carryRequests carries the requests of a program to the host.
func (c *conn) carryRequests(stream net.Conn, p *proxy) Reason {
	guest := &readConn{Conn: stream, c: c, answering: &p.answering}
	silent := log.New(io.Discard, "", 0)
	transport := &http.Transport{
		DialContext: p.dial, DialTLSContext: p.dialTLS, DisableCompression: true, Protocols: new(http.Protocols), MaxConnsPerHost: 1,
		ExpectContinueTimeout: time.Second, MaxResponseHeaderBytes: maxHead, ReadBufferSize: leastBuffer, WriteBufferSize: leastBuffer,
	}
	transport.Protocols.SetHTTP1(true)
	p.reverse = &httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: transport, ModifyResponse: p.screen, FlushInterval: -1, ErrorLog: silent, ErrorHandler: p.failed,
	}
	closed := make(chan struct{})
	server := &http.Server{
		Handler: p, ReadHeaderTimeout: c.gate.waits.head, IdleTimeout: idlePatience, MaxHeaderBytes: maxHead, ErrorLog: silent,
		DisableGeneralOptionsHandler: true, Protocols: transport.Protocols,
		BaseContext: func(net.Listener) context.Context { return c.ctx },
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed || state == http.StateHijacked {
				close(closed)
			}
		},
	}
	_ = server.Serve(&oneListener{conn: guest, closed: closed})
	_ = server.Close()
	p.requests.Wait() // requests of an upgraded connection
	transport.CloseIdleConnections()
	switch {
	case p.asked.Load():
	case guest.read.Load():
		return DNSMismatch // it sent data that is no request, or names no host
	default:
		c.allow("") // unused, but the host has seen it
	}
	return ""
}

// proxy forwards the requests of one connection.
type proxy struct {
	c        *conn
	scheme   string  // for the gate's connection to the host
	port     string  // with a colon
	secrets  *Broker // nil if the host has none
	reverse  *httputil.ReverseProxy
	requests sync.WaitGroup
	asked    atomic.Bool
	// answering is set while a response is incomplete.
	answering atomic.Bool

	mu    sync.Mutex
	first net.Conn // dialled before the first request; nil after its use
}

// ServeHTTP forwards a request whose Host is the host.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.requests.Add(1)
	defer p.requests.Done()
	c := p.c
	p.asked.Store(true)
	if reason := p.wrong(r); reason != "" {
		c.gate.deny(c.event(DNSMismatch))
		w.Header().Set("Connection", "close")
		http.Error(w, reason, http.StatusForbidden)
		return
	}
	if !c.allowed {
		c.allow("")
	}
	if len(r.Header) > maxHeaders {
		r.Header = nil // the server keeps the request while it waits for the rest of a body
		w.Header().Set("Connection", "close")
		http.Error(w, fmt.Sprintf("belljar: the request has more than %d headers", maxHeaders), http.StatusRequestHeaderFieldsTooLarge)
		return
	}
	p.answering.Store(true) // a response that breaks off panics before the reset below
	// The request's context ends with the program's side of the connection. After a half close, the response must continue.
	ctx := context.WithValue(c.ctx, http.ServerContextKey, r.Context().Value(http.ServerContextKey))
	p.reverse.ServeHTTP(&answer{w, p.secrets}, r.WithContext(ctx))
	p.secrets.hide(w.Header()) // trailers
	p.answering.Store(false)
}

// answer is a response of the host, or an informational one. It contains only headers that the host sent, without secrets.
type answer struct {
	http.ResponseWriter
	secrets *Broker
}

func (a *answer) WriteHeader(status int) {
	h := a.Header()
	if status < http.StatusOK && len(h) > maxHeaders { // screen sees only final answers
		return
	}
	for _, name := range []string{"Content-Type", "Date"} { // the server would add them
		if _, sent := h[name]; !sent {
			h[name] = nil
		}
	}
	a.secrets.hide(h)
	a.ResponseWriter.WriteHeader(status)
	if status >= http.StatusOK {
		clear(h) // what is added from now on are trailers
	}
}

// Unwrap makes Flush available.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// endSilent ends a connection whose program has ended its side, and may be gone, after the host has been silent for
// waits.silent.
func (c *conn) endSilent() {
	for {
		before := c.in.Load()
		select {
		case <-time.After(c.gate.waits.silent):
		case <-c.ctx.Done():
			return
		}
		if c.in.Load() == before {
			c.cancel(nil)
			return
		}
	}
}

// wrong returns the reason why a request is not for the host, or "".
func (p *proxy) wrong(r *http.Request) string {
	if r.Method == http.MethodConnect {
		return "belljar: CONNECT is denied within a connection (dns_mismatch)"
	}
	host := strings.TrimSuffix(r.Host, p.port)
	if name, err := canonical(host); err != nil || name != p.c.host {
		return fmt.Sprintf("belljar: this connection is for %s, the request is for %q (dns_mismatch)", p.c.host, clip(r.Host))
	}
	if r.URL.Opaque != "" { // http:http://other/ would be written as http://other/
		return fmt.Sprintf("belljar: %q is neither a path nor a URL with a host (dns_mismatch)", clip(r.RequestURI))
	}
	if r.URL.Scheme != "" && !strings.EqualFold(r.URL.Scheme, p.scheme) {
		return fmt.Sprintf("belljar: this connection is for %s, the request is for %q (dns_mismatch)", p.scheme, clip(r.URL.Scheme))
	}
	return ""
}

// rewrite forwards a request unchanged, apart from headers about the connection.
func (p *proxy) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme, r.Out.URL.Host = p.scheme, p.c.host
	r.Out.URL.RawQuery = r.In.URL.RawQuery
	r.Out.Host = p.c.host
	r.Out.Trailer = nil // a host that gets trailers announced would wait for them
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, ok := r.In.Header[name]; ok {
			r.Out.Header[name] = values
		}
	}
	// Any protocol except WebSocket could name another host inside.
	if !strings.EqualFold(r.Out.Header.Get("Upgrade"), "websocket") {
		r.Out.Header.Del("Upgrade")
		r.Out.Header.Del("Connection")
		r.Out.Header.Del("Http2-Settings")
	}
	if p.secrets != nil {
		p.setCredentials(r.Out)
	}
}

// failed responds to a request in place of the host. A connection that is cut gets no response.
func (p *proxy) failed(w http.ResponseWriter, _ *http.Request, err error) {
	if p.c.ctx.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	why := p.c.host + " did not answer"
	if own, ok := errors.AsType[refusal](err); ok {
		why = string(own)
	} else if strings.Contains(err.Error(), "response headers exceeded") { // an error of net/http without a type
		why = fmt.Sprintf("the head of the answer of %s is larger than %d KiB", p.c.host, maxHead>>10)
	}
	w.Header().Set("Connection", "close")
	http.Error(w, "belljar: "+why, http.StatusBadGateway)
}

// dial returns the connection that was dialled first. Later calls dial a pinned address again.
func (p *proxy) dial(context.Context, string, string) (net.Conn, error) {
	p.mu.Lock()
	conn := p.first
	p.first = nil
	p.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	conn, reason := p.c.connect()
	if reason != "" {
		return nil, fmt.Errorf("egress: %s", reason)
	}
	return conn, nil
}

// oneListener accepts one connection, and then waits until the server has ended it.
type oneListener struct {
	conn   net.Conn
	used   bool
	closed <-chan struct{}
}

func (l *oneListener) Accept() (net.Conn, error) {
	if !l.used {
		l.used = true
		return l.conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneListener) Close() error   { return nil }
func (l *oneListener) Addr() net.Addr { return l.conn.LocalAddr() }

// readConn records whether any bytes were read. It ends the connection when the program's side breaks, or has ended and the host
// is silent. Closing it in the middle of a response resets it, so that the program detects the failure.
type readConn struct {
	net.Conn
	c         *conn
	read      atomic.Bool
	ended     sync.Once
	answering *atomic.Bool
}

// Close ends the connection. After complete responses, the program reads an orderly end.
func (c *readConn) Close() error {
	if !c.answering.Load() {
		_ = c.CloseWrite() // fails if the connection is already broken
	}
	return c.Conn.Close()
}

func (c *readConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.read.Store(true)
	}
	switch {
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
	case errors.Is(err, io.EOF):
		c.ended.Do(func() { go c.c.endSilent() })
	default:
		c.c.cancel(nil)
	}
	return n, err
}

// CloseWrite ends the direction to the program.
func (c *readConn) CloseWrite() error { return closeWrite(c.Conn) }
