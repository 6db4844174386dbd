package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
)

var hostName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"example.com", "EXAMPLE.com.", "a\x00.b", "127.0.0.1", "0x7f.1", "\u212aelvin.example", "-a.b", "a..b", strings.Repeat("a", 300)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := canonical(s)
		if err != nil {
			return
		}
		if len(name) > maxName || !hostName.MatchString(name) {
			t.Errorf("%q became %q", s, name)
		}
		if again, err := canonical(name); again != name || err != nil {
			t.Errorf("%q became %q, %v", name, again, err)
		}
		if !strings.EqualFold(strings.TrimSuffix(s, "."), name) {
			t.Errorf("%q became %q", s, name)
		}
		if _, err := netip.ParseAddr(name); err == nil {
			t.Errorf("%q is an address", name)
		}
	})
}

func FuzzRules(f *testing.F) {
	f.Add("example.com\n*.example.org", "10.0.0.0/8", "203.0.113.7", "a.example.org")
	f.Add("*", "::/0", "::ffff:1.2.3.4", "::1")
	f.Add("https://x/\n*.com\na:1", "1.2.3.4/33", "fe80::1%a", "x.com")
	f.Fuzz(func(t *testing.T, hosts, cidrs, ips, host string) {
		list := func(s string) []string {
			if s == "" {
				return nil
			}
			return strings.Split(s, "\n")
		}
		e := belljar.Egress{Hosts: list(hosts), CIDRs: list(cidrs), IPs: list(ips)}
		rules, err := ParseRules(e)
		if err != nil {
			var refusal *belljar.Error
			if !errors.As(err, &refusal) || refusal.Hint == "" || !strings.HasPrefix(refusal.Details["field"].(string), "egress.") {
				t.Errorf("%v: %v", e, err)
			}
			return
		}
		if rules.Empty() != (len(e.Hosts)+len(e.CIDRs)+len(e.IPs) == 0) {
			t.Errorf("%v: empty %v", e, rules.Empty())
		}
		p := Policy{Run: rules, Server: Any(), Ports: []uint16{443}}
		rule, reason := p.Decide(host, 443)
		if (rule == "") == (reason == "") && reason != PrivateAddress {
			t.Errorf("%v, %q: %q, %q", e, host, rule, reason)
		}
		if reason != "" {
			return
		}
		if ip, err := netip.ParseAddr(host); err == nil {
			if prefix, err := netip.ParsePrefix(rule); err != nil && rule != ip.Unmap().String() || err == nil && !prefix.Contains(ip.Unmap()) {
				t.Errorf("%v, %q: %q", e, host, rule)
			}
			if _, special := specialRange(ip.Unmap()); special {
				t.Errorf("%v allows %q", e, host)
			}
			return
		}
		name := strings.ToLower(strings.TrimSuffix(host, "."))
		if suffix, wildcard := strings.CutPrefix(rule, "*"); rule != name && !(wildcard && strings.HasSuffix(name, suffix) && len(name) > len(suffix)) {
			t.Errorf("%v, %q: %q", e, host, rule)
		}
	})
}

// scripted is a connection that reads the test's bytes.
type scripted struct {
	io.Reader
	io.Writer
}

func (scripted) Close() error                     { return nil }
func (scripted) CloseWrite() error                { return nil }
func (scripted) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (scripted) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (scripted) SetDeadline(time.Time) error      { return nil }
func (scripted) SetReadDeadline(time.Time) error  { return nil }
func (scripted) SetWriteDeadline(time.Time) error { return nil }

// FuzzHello compares readHello with crypto/tls: if both accept a ClientHello, they must find the same name.
func FuzzHello(f *testing.F) {
	f.Add(helloOf(f, &tls.Config{ServerName: "a.example.com"}))
	f.Add(helloOf(f, &tls.Config{ServerName: "a.example.com", MaxVersion: tls.VersionTLS12}))
	f.Add(helloOf(f, &tls.Config{InsecureSkipVerify: true}))
	f.Add(records(message(extension(0, names("a.example.com"))), 20))
	f.Add(records(message(extension(0, names("a.example.com", "b.example.com"))), 1<<14))
	f.Add(records(message(extension(0, names("a.example.com")), extension(0, names("b.example.com"))), 1<<14))
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		raw, name, err := readHello(bytes.NewReader(in))
		if !bytes.HasPrefix(in, raw) || len(raw) > 6*maxHello+5 {
			t.Fatalf("read %d bytes of %d", len(raw), len(in))
		}
		raw2, name2, err2 := readHello(iotest.OneByteReader(bytes.NewReader(in)))
		if !bytes.Equal(raw, raw2) || name != name2 || (err == nil) != (err2 == nil) {
			t.Errorf("byte by byte: %q, %v; at once: %q, %v", name2, err2, name, err)
		}
		if err != nil {
			return
		}
		seen, accepted := "", false
		server := tls.Server(scripted{bytes.NewReader(raw), io.Discard}, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			seen, accepted = h.ServerName, true
			return nil, errors.New("enough")
		}})
		_ = server.Handshake()
		if accepted && seen != name {
			t.Errorf("a server reads %q, the gate %q", seen, name)
		}
	})
}

// FuzzHTTP sends any bytes through the real proxy: each request that reaches the host must be for the host.
func FuzzHTTP(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\nGET / HTTP/1.1\r\nHost: evil.org\r\n\r\n",
		"GET http://evil.org/ HTTP/1.1\r\nHost: a.example.com\r\n\r\n",
		"GET http:http://evil.org/ HTTP/1.1\r\nHost: a.example.com\r\n\r\n",
		"GET http://evil.org@a.example.com//b.example.com/?http://c.example.com HTTP/1.1\r\nHost: a.example.com\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.example.com\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.example.com\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /\r\n",
		"GET / HTTP/1.1\r\nHost: a.example.com\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nPRI * HTTP/2.0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.example.com\r\nConnection: Host, X\r\nExpect: 100-continue\r\n\r\n",
		"CONNECT evil.org:443 HTTP/1.1\r\nHost: evil.org\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: a.example.com\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		g := NewGate(Options{Policy: policyOf(t, "a.example.com"), Own: noOwn, Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			return nil, errors.New("no second connection")
		}})
		c := &conn{gate: g, host: "a.example.com", port: 80, row: new(row)}
		c.ctx, c.cancel = context.WithCancelCause(t.Context())
		target, peer := net.Pipe()
		var arrived bytes.Buffer
		var peers sync.WaitGroup
		peers.Go(func() {
			defer peer.Close()
			r := bufio.NewReader(io.TeeReader(peer, &arrived))
			for {
				req, err := http.ReadRequest(r)
				if err != nil {
					if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
						t.Errorf("what arrived is no request: %v\n%q", err, arrived.Bytes())
					}
					return
				}
				origin, upgrade := strings.HasPrefix(req.RequestURI, "/") || req.RequestURI == "*", req.Header.Get("Upgrade")
				if !origin || req.Host != "a.example.com" || req.Method == "CONNECT" || upgrade != "" && upgrade != "websocket" {
					t.Errorf("arrived: %s %s, Host %q\n%q", req.Method, req.RequestURI, req.Host, arrived.Bytes())
				}
				_, _ = io.Copy(io.Discard, req.Body)
				if _, err := io.WriteString(peer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
					return
				}
			}
		})
		c.carryHTTP(scripted{bytes.NewReader(in), io.Discard}, c.meter(target))
		c.cancel(nil)
		target.Close()
		peers.Wait()
	})
}

// FuzzAsks lets an agent send any requests: only pinned addresses of allowed names may be dialled.
func FuzzAsks(f *testing.F) {
	for _, s := range []string{
		`{"id":1,"name":"a.example.com"}`,
		`{"id":1,"open":{"host":"a.example.com","port":5432,"via":"address"}}{"id":1,"open":{"host":"A.example.com.","port":443}}`,
		`{"id":18446744073709551615,"open":{"host":"127.0.0.1","port":80,"via":"socks"}}`,
		`{"id":2,"name":"evil.org","open":{"host":"::ffff:10.0.0.1","port":80}}`,
		`{"name":"lie.example.com"}{"open":{"host":"lie.example.com","port":80}}`,
		`{}`,
	} {
		f.Add([]byte(s))
	}
	lie := []netip.Addr{netip.MustParseAddr("::ffff:127.0.0.1"), netip.MustParseAddr("169.254.169.254")}
	f.Fuzz(func(t *testing.T, in []byte) {
		dns := &resolver{}
		dns.set("a.example.com", []netip.Addr{public})
		dns.set("lie.example.com", lie)
		script := &script{in: json.NewDecoder(bytes.NewReader(in))}
		g := NewGate(Options{
			Policy: policyOf(t, "*.example.com"), Own: noOwn, Resolver: dns,
			Dial: func(_ context.Context, at netip.AddrPort) (net.Conn, error) {
				if at.Addr() != public {
					t.Errorf("dialled %s", at)
				}
				return nil, errors.New("not today")
			},
		})
		err := g.Serve(t.Context(), script, func(context.Context, uint64) (Stream, error) {
			t.Error("accepted a connection without one to the host")
			return nil, errors.New("none")
		})
		if err == nil {
			t.Error("Serve ended without an error")
		}
		script.mu.Lock()
		defer script.mu.Unlock()
		if len(script.answers) > script.asks {
			t.Errorf("%d answers to %d asks", len(script.answers), script.asks)
		}
		for _, a := range script.answers {
			if a.OK != (a.Reason == "" || a.Reason == string(Unreachable)) {
				t.Errorf("answer %+v", a)
			}
		}
		if r := g.Report(); len(r.Hosts) > maxHosts {
			t.Errorf("%d hosts", len(r.Hosts))
		}
	})
}

// script is a guest that sends the requests that it reads.
type script struct {
	in *json.Decoder

	mu      sync.Mutex
	asks    int
	answers []wire.Answer
}

func (s *script) Next() (ask wire.Ask, err error) {
	if err := s.in.Decode(&ask); err != nil {
		return ask, io.EOF
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks++
	return ask, nil
}

func (s *script) Answer(a wire.Answer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, a)
	return nil
}

func (s *script) Close() error { return nil }
