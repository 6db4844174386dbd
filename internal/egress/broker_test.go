package egress

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/secret/redact"
)

const (
	secretValue = "s3cr3t-t0ken"
	rendered    = "Bearer " + secretValue
)

// api is a TLS server with a name, and a gate whose broker has a credential for it.
type api struct {
	*world
	authority *Authority
	certs     *x509.CertPool // authorities that the program trusts

	mu   sync.Mutex
	got  []*http.Request
	uses int // number of connections
}

// newAPI starts a server for a.example.com.
func newAPI(t testing.TB, serve http.HandlerFunc, change func(*Options)) *api {
	t.Helper()
	a := &api{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.got = append(a.got, r.Clone(t.Context()))
		a.mu.Unlock()
		serve(w, r)
	}))
	cert := selfSigned(t)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.uses++
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	if a.authority, err = NewAuthority([]string{"a.example.com"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	a.certs = x509.NewCertPool()
	a.certs.AppendCertsFromPEM(a.authority.PEM())
	a.world = newWorld(t, func(o *Options) {
		o.Broker = &Broker{
			Authority: a.authority, Credentials: []Credential{{"a.example.com", "Authorization", rendered}}, Roots: roots,
			Hidden: redact.New(secretValue),
		}
		if change != nil {
			change(o)
		}
	})
	a.world.mu.Lock()
	a.peers[netip.AddrPortFrom(public, 443)] = server.Listener.Addr().String()
	a.world.mu.Unlock()
	a.dns.set("a.example.com", []netip.Addr{public})
	return a
}

func (a *api) requests() []*http.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.got)
}

// secure opens a connection and does a program's handshake.
func (a *api) secure(t *testing.T, protocols ...string) *tls.Conn {
	t.Helper()
	c := tls.Client(a.connect("a.example.com", 443), &tls.Config{ServerName: "a.example.com", RootCAs: a.certs, NextProtos: protocols})
	_ = c.SetDeadline(time.Now().Add(patience))
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	return c
}

// send sends the bytes of a request over a new connection.
func (a *api) send(t *testing.T, text string) *http.Response {
	t.Helper()
	c := a.secure(t)
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") }

const get = "GET /x HTTP/1.1\r\nHost: a.example.com\r\n"

// TestBroker: the program sends a placeholder, and the host gets the secret, on a persistent connection.
func TestBroker(t *testing.T) { untimed(t, broker) }

func broker(t *testing.T) {
	a := newAPI(t, ok, nil)
	c := a.secure(t, "h2", "http/1.1")
	if got := c.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
		t.Errorf("protocol %q", got)
	}
	r := bufio.NewReader(c)
	for range 3 {
		write(t, c, get+"Authorization: Bearer belljar-secret-1\r\n\r\n")
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := body(t, resp); resp.StatusCode != 200 || got != "fine" {
			t.Errorf("%d %q", resp.StatusCode, got)
		}
	}
	for _, r := range a.requests() {
		if got := r.Header["Authorization"]; !slices.Equal(got, []string{rendered}) || r.Host != "a.example.com" || r.URL.Path != "/x" {
			t.Errorf("the host got %q, %s, %s", got, r.Host, r.URL)
		}
	}
	if a.uses != 1 {
		t.Errorf("%d connections to the host", a.uses)
	}
	if report := a.gate.Report(); report.Allowed != 1 || report.Denied != 0 || report.BytesIn == 0 || report.BytesOut == 0 {
		t.Errorf("report %+v", report)
	}
}

// TestBrokerOwnHeader: the program's own value of the credential's header never reaches the host.
func TestBrokerOwnHeader(t *testing.T) {
	a := newAPI(t, ok, func(o *Options) {
		o.Broker.Credentials = append(o.Broker.Credentials, Credential{"a.example.com", "X-Api-Key", secretValue})
	})
	for _, own := range []string{
		"Authorization: Bearer mine\r\n",
		"authorization: mine\r\nAUTHORIZATION: mine\r\n",
		"aUtHoRiZaTiOn:mine\r\n",
		"X_Api_Key: mine\r\nx-api_key: mine\r\nX.Api~Key: mine\r\n",
		"Connection: Authorization, X-Api-Key\r\nAuthorization: mine\r\n",
	} {
		resp := a.send(t, get+own+"\r\n")
		if resp.StatusCode != 200 {
			t.Errorf("%q: %s", own, resp.Status)
		}
		list := a.requests()
		h := list[len(list)-1].Header
		if !slices.Equal(h["Authorization"], []string{rendered}) || !slices.Equal(h["X-Api-Key"], []string{secretValue}) {
			t.Errorf("%q: the host got %v", own, h)
		}
		if strings.Contains(fmt.Sprint(h), "mine") {
			t.Errorf("%q: the program's own came through: %v", own, h)
		}
	}
	for _, own := range []string{"Authorization : mine\r\n", " Authorization: mine\r\n", "Authorization\x00: mine\r\n"} {
		before := len(a.requests())
		if resp := a.send(t, get+own+"\r\n"); resp.StatusCode != 400 || len(a.requests()) != before {
			t.Errorf("%q: %s", own, resp.Status)
		}
	}
	// Trailers are dropped, and the Trailer header, too.
	resp := a.send(t, "POST / HTTP/1.1\r\nHost: a.example.com\r\nTransfer-Encoding: chunked\r\nTrailer: X-Api-Key, X-Sum\r\n\r\n1\r\nx\r\n0\r\nX-Api-Key: mine\r\n\r\n")
	if list := a.requests(); resp.StatusCode != 200 || len(list[len(list)-1].Trailer) > 0 {
		t.Errorf("%s: a trailer came through", resp.Status)
	}
}

// TestBrokerRedirect: a redirect is passed on unchanged, and not followed.
func TestBrokerRedirect(t *testing.T) {
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://evil.org/?"+r.Header.Get("Authorization"), http.StatusTemporaryRedirect)
	}, nil)
	resp := a.send(t, get+"\r\n")
	if got := resp.Header.Get("Location"); resp.StatusCode != 307 || !strings.HasPrefix(got, "https://evil.org/?") || strings.Contains(got, secretValue) {
		t.Errorf("%s to %q", resp.Status, got)
	}
	if got := a.dials(); len(got) != 1 {
		t.Errorf("dialled %v", got)
	}
	a.refused("evil.org", 443, NoMatch)
}

// TestBrokerElsewhere: only HTTPS on port 443 reaches the host, and only that host.
func TestBrokerElsewhere(t *testing.T) {
	a := newAPI(t, ok, nil)
	a.refused("a.example.com", 80, Brokered)
	a.refused("a.example.com", 5432, Brokered)
	a.refused("A.Example.com.", 80, Brokered)
	if got := a.dials(); len(got) > 0 {
		t.Errorf("dialled %v", got)
	}
	for _, sent := range []string{
		"GET / HTTP/1.1\r\nHost: b.example.com\r\n\r\n",
		"GET https://b.example.com/ HTTP/1.1\r\nHost: a.example.com\r\n\r\n",
		"GET http://a.example.com/ HTTP/1.1\r\nHost: a.example.com\r\n\r\n",
		"GET https:https://b.example.com/ HTTP/1.1\r\nHost: a.example.com\r\n\r\n",
		"GET https:b.example.com HTTP/1.1\r\nHost: a.example.com\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.example.com:80\r\n\r\n",
		"CONNECT a.example.com:443 HTTP/1.1\r\nHost: a.example.com:443\r\n\r\n",
	} {
		if resp := a.send(t, sent); resp.StatusCode != 403 {
			t.Errorf("%q: %s", sent, resp.Status)
		}
	}
	for _, sent := range []string{
		"GET / HTTP/1.1\r\nHost: a.example.com\r\nHost: b.example.com\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.example.com\r\nContent-Length: 0\r\nContent-Length: 4\r\n\r\n",
	} {
		if resp := a.send(t, sent); resp.StatusCode != 400 {
			t.Errorf("%q: %s", sent, resp.Status)
		}
	}
	if got := a.requests(); len(got) != 0 {
		t.Errorf("the host got %d requests", len(got))
	}
	for _, name := range []string{"b.example.com", "a.example.com.evil.org"} {
		c := tls.Client(a.connect("a.example.com", 443), &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err := c.Handshake(); err == nil {
			t.Errorf("a handshake for %s", name)
		}
		a.denied("a.example.com", DNSMismatch)
	}
}

// TestBrokerPipeline: each pipelined request gets the header, and a request for another host ends the connection. A body that
// another parser could read as a request stays a body.
func TestBrokerPipeline(t *testing.T) {
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }, nil)
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: a.example.com\r\nX: "
	c := a.secure(t)
	write(t, c, get+"\r\n"+
		"POST /both HTTP/1.1\r\nHost: a.example.com\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"+
		fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(smuggled), smuggled)+get+"\r\n")
	r := bufio.NewReader(c)
	var bodies []string
	for range 3 {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, body(t, resp))
	}
	if !slices.Equal(bodies, []string{"", smuggled, ""}) {
		t.Errorf("answers %q", bodies)
	}
	c = a.secure(t)
	write(t, c, get+"\r\n"+"GET /evil HTTP/1.1\r\nHost: evil.org\r\n\r\n"+get+"\r\n")
	var list []int
	for r = bufio.NewReader(c); ; {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			break
		}
		_ = body(t, resp)
		list = append(list, resp.StatusCode)
	}
	if !slices.Equal(list, []int{200, 403}) {
		t.Errorf("answers %v", list)
	}
	for _, r := range a.requests() {
		if r.URL.Path == "/smuggled" || r.URL.Path == "/evil" || r.Header.Get("Authorization") != rendered {
			t.Errorf("the host got %s with %v", r.URL, r.Header)
		}
	}
}

// TestBrokerHandshake: a client that cannot speak HTTP/1.1, or does not trust the authority, is refused, and the report gives the
// reason.
func TestBrokerHandshake(t *testing.T) {
	for name, config := range map[string]*tls.Config{
		"HTTP/2 only": {ServerName: "a.example.com", NextProtos: []string{"h2"}, InsecureSkipVerify: true},
		"no trust":    {ServerName: "a.example.com", RootCAs: x509.NewCertPool()},
		"old TLS":     {ServerName: "a.example.com", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11, InsecureSkipVerify: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t, ok, nil)
			c := tls.Client(a.connect("a.example.com", 443), config)
			_ = c.SetDeadline(time.Now().Add(patience))
			if err := c.Handshake(); err == nil {
				t.Fatal("the handshake succeeded")
			} else {
				t.Log(err)
			}
			c.Close()
			a.denied("a.example.com", Brokered)
			if len(a.requests()) > 0 {
				t.Error("the host got a request")
			}
		})
	}
}

// TestBrokerVerifies: the secret goes only to a server that can prove its name.
func TestBrokerVerifies(t *testing.T) {
	a := newAPI(t, ok, func(o *Options) { o.Broker.Roots = x509.NewCertPool() })
	resp := a.send(t, get+"\r\n")
	if got := body(t, resp); resp.StatusCode != 502 || !strings.Contains(got, "certificate of a.example.com is not valid (certificate_unknown)") {
		t.Errorf("%s %q", resp.Status, got)
	}
	a.denied("a.example.com", CertificateUnknown)
	if len(a.requests()) > 0 {
		t.Error("the host got a request")
	}
}

// TestBrokerNothingElse: the secret is only in its header of a request to the host, for any output of the program.
func TestBrokerNothingElse(t *testing.T) {
	const placeholder = "belljar-secret-1"
	var read string
	a := newAPI(t, func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		read = string(b)
	}, nil)
	a.send(t, "POST /"+placeholder+"?q="+placeholder+" HTTP/1.1\r\nHost: a.example.com\r\nX: "+placeholder+"\r\nContent-Length: 16\r\n\r\n"+placeholder)
	r := a.requests()[0]
	if r.URL.String() != "/"+placeholder+"?q="+placeholder || r.Header.Get("X") != placeholder || read != placeholder {
		t.Errorf("%s %v %q", r.URL, r.Header, read)
	}
}

func TestBrokerCheck(t *testing.T) {
	b := &Broker{Credentials: []Credential{{"a.example.com", "Authorization", rendered}}}
	dns := &resolver{}
	dns.set("a.example.com", []netip.Addr{public})
	p := policyOf(t, "*.example.com")
	if got := Check(t.Context(), p, b, dns, "http://a.example.com/"); got.Allowed || got.Reason != string(Brokered) || !strings.Contains(got.Message, "HTTPS on port 443 only") {
		t.Errorf("%+v", got)
	}
	if got := Check(t.Context(), p, b, dns, "https://a.example.com/"); !got.Allowed || !strings.HasSuffix(got.Message, "the request gets a brokered secret") || strings.Contains(got.Message, secretValue) {
		t.Errorf("%+v", got)
	}
}

// The reason names the fault of an invalid certificate.
func TestUnverified(t *testing.T) {
	for want, err := range map[Reason]error{
		CertificateUnknown: x509.UnknownAuthorityError{}, CertificateName: x509.HostnameError{},
		CertificateExpired: x509.CertificateInvalidError{Reason: x509.Expired}, CertificateInvalid: x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign},
	} {
		if got := unverified(fmt.Errorf("dial: %w", &tls.CertificateVerificationError{Err: err})); got != want {
			t.Errorf("%T: %s, want %s", err, got, want)
		}
	}
}
