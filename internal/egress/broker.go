package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar/internal/secret/redact"
)

// Credential is a header that a [Gate] sets on the HTTPS requests of a sandbox to one host.
type Credential struct {
	Host   string // in canonical form
	Header string
	Value  string
}

// Broker holds the credentials of a sandbox. Connections to their hosts carry only HTTP/1.1 over TLS on port 443.
type Broker struct {
	Authority   *Authority
	Credentials []Credential
	Hidden      *redact.Patterns // secrets that no response shows
	Roots       *x509.CertPool   // authorities that verify hosts; nil is the system's

	once  sync.Once
	lower *redact.Patterns // see inName
}

// brokers reports whether a host has credentials.
func (b *Broker) brokers(host string) bool { return len(b.of(host)) > 0 }

// of returns the credentials of a host.
func (b *Broker) of(host string) (list []Credential) {
	if b == nil {
		return nil
	}
	for _, c := range b.Credentials {
		if c.Host == host {
			list = append(list, c)
		}
	}
	return list
}

// takes reports whether credentials permit a port of a host.
func (b *Broker) takes(host string, port uint16) bool {
	return !b.brokers(host) || port == 443
}

// carryBrokered terminates the program's TLS, which begins with the bytes of raw, and speaks HTTP to the host over a TLS connection of its
// own.
func (c *conn) carryBrokered(stream Stream, raw []byte, target net.Conn) Reason {
	broker := c.gate.opts.Broker
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true, Time: c.gate.opts.Now,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return broker.Authority.leaf(c.host, c.gate.opts.Now())
		},
	}
	guest := &ended{Conn: tls.Server(&replay{Stream: stream, raw: raw}, config), stream: stream, last: c.gate.waits.last}
	ctx, cancel := context.WithTimeout(c.ctx, c.gate.waits.head)
	defer cancel()
	if guest.HandshakeContext(ctx) != nil {
		// It offers only HTTP/2, or does not trust the certificate. It may still read the alert.
		_ = stream.CloseWrite()
		return Brokered
	}
	cancel()
	return c.carryRequests(guest, &proxy{c: c, first: target, scheme: "https", port: ":443", secrets: broker})
}

// ended is the TLS connection that the gate has terminated for a program. Close without CloseWrite breaks it, so that no incomplete
// response looks complete.
type ended struct {
	*tls.Conn
	stream Stream
	last   time.Duration // time to write the end
}

func (e *ended) CloseWrite() error {
	if err := e.Conn.CloseWrite(); err != nil { // it waits for 5 s at most, and makes later writes fail
		return err
	}
	_ = e.stream.SetWriteDeadline(time.Now().Add(e.last))
	return e.stream.CloseWrite()
}

func (e *ended) Close() error { return e.stream.Close() }

// replay is a connection whose first bytes have already been read.
type replay struct {
	Stream
	raw []byte
}

func (r *replay) Read(p []byte) (int, error) {
	if len(r.raw) == 0 {
		return r.Stream.Read(p)
	}
	n := copy(p, r.raw)
	r.raw = r.raw[n:]
	return n, nil
}

// refusal is the reason why the gate responds to a request in place of the host.
type refusal string

func (r refusal) Error() string { return string(r) }

// dialTLS returns a connection to the host, and verifies its certificate.
func (p *proxy) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := p.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(conn, &tls.Config{
		ServerName: p.c.host, RootCAs: p.secrets.Roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, Time: p.c.gate.opts.Now,
	})
	ctx, cancel := context.WithTimeout(ctx, p.c.gate.waits.dial)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
			reason := unverified(err)
			p.c.gate.deny(p.c.event(reason))
			return nil, refusal(fmt.Sprintf("the certificate of %s is not valid (%s): the request was not sent", p.c.host, reason))
		}
		return nil, err
	}
	return secure, nil
}

// unverified returns the reason why a certificate cannot be verified.
func unverified(err error) Reason {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return CertificateUnknown
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return CertificateName
	}
	if bad, ok := errors.AsType[x509.CertificateInvalidError](err); ok && bad.Reason == x509.Expired {
		return CertificateExpired
	}
	return CertificateInvalid
}

// setCredentials puts the credentials into a request. It removes every header of the program that a host could read as one of these
// headers.
func (p *proxy) setCredentials(out *http.Request) {
	credentials := p.secrets.of(p.c.host)
	for _, c := range credentials {
		for name := range out.Header {
			if sameHeader(name, c.Header) {
				delete(out.Header, name)
			}
		}
	}
	for _, c := range credentials {
		out.Header.Set(c.Header, c.Value)
	}
	// The gate could not find a secret that comes back encoded, or in two parts.
	out.Header.Set("Accept-Encoding", "identity")
	for _, name := range []string{"Range", "If-Range", "Request-Range"} { // Apache reads the last one, too
		out.Header.Del(name)
	}
}

// sameHeader reports whether a server may treat two names as one header: many servers read X_Key as X-Key, and some read any other mark
// the same way.
func sameHeader(a, b string) bool {
	return strings.EqualFold(strings.Map(hyphen, a), strings.Map(hyphen, b))
}

// hyphen returns letters and digits of a header's name unchanged, and a hyphen for any other character.
func hyphen(r rune) rune {
	if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
		return r
	}
	return '-'
}

// screen refuses a response with too many headers. Of a host with credentials, it hides the secrets in the body and in the names of
// trailers, and refuses a response in which they cannot be found.
func (p *proxy) screen(r *http.Response) error {
	if len(r.Header) > maxHeaders {
		return refusal(fmt.Sprintf("the answer of %s has more than %d headers", p.c.host, maxHeaders))
	}
	if p.secrets == nil {
		return nil
	}
	p.secrets.hide(r.Trailer)
	if r.StatusCode == http.StatusSwitchingProtocols {
		return refusal(p.c.host + " changes the protocol, which belljar refuses to a host with a brokered secret")
	}
	if r.Request.Method == http.MethodHead || r.Body == http.NoBody {
		return nil
	}
	if partial(r) {
		return refusal("the answer of " + p.c.host + " is a range of bytes, in which belljar cannot look for the brokered secret")
	}
	if err := p.decode(r); err != nil {
		return err
	}
	r.Body = &hiding{ReadCloser: r.Body, by: p.secrets.Hidden.Stream(), buf: make([]byte, leastBuffer)}
	return nil
}

// partial reports whether a response has ranges of bytes, which a host may send for a header that it alone reads as Range. Ranges of rows
// may pass: some APIs send pages of a list as such.
func partial(r *http.Response) bool {
	units := r.Header.Values("Content-Range")
	return r.StatusCode == http.StatusPartialContent && len(units) == 0 ||
		strings.Contains(strings.ToLower(strings.Join(units, ",")), "bytes") ||
		strings.Contains(strings.ToLower(r.Header.Get("Content-Type")), "byteranges")
}

// hide replaces the secrets in the headers of a response.
func (b *Broker) hide(h http.Header) {
	if b == nil {
		return
	}
	for name, values := range h {
		for i, v := range values {
			values[i] = b.Conceal(v)
		}
		if b.Conceal(name) != name || b.inName(name) {
			delete(h, name)
		}
	}
}

// inName reports whether a header's name contains a word of a credential: names lose their case. The words of 31 credentials of 8 KiB are
// too many to compare each with thousands of names.
func (b *Broker) inName(name string) bool {
	b.once.Do(func() {
		var words []string
		for _, c := range b.Credentials {
			words = append(words, strings.Fields(strings.ToLower(c.Value))...)
		}
		b.lower = redact.Exact(words...)
	})
	return b.lower.In([]byte(strings.ToLower(name)))
}

// Conceal replaces the secrets in a text.
func (b *Broker) Conceal(text string) string {
	s := b.Hidden.Stream()
	text = string(s.Write([]byte(text))) // a copy: the result lasts until the next call
	return text + string(s.Flush())
}

// hiding hides secrets in the bytes that are read.
type hiding struct {
	io.ReadCloser
	by    *redact.Stream
	buf   []byte
	ready []byte
	err   error
}

func (h *hiding) Read(p []byte) (int, error) {
	for len(h.ready) == 0 {
		if h.err != nil {
			return 0, h.err
		}
		n, err := h.ReadCloser.Read(h.buf)
		h.ready, h.err = h.by.Write(h.buf[:n]), err
		if errors.Is(err, io.EOF) {
			h.ready = append(append([]byte(nil), h.ready...), h.by.Flush()...)
		}
	}
	n := copy(p, h.ready)
	h.ready = h.ready[n:]
	return n, nil
}
