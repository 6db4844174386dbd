//go:build linux

// Package peer provides servers that sandboxes connect to in black-box tests: an HTTP and an HTTPS server on a loopback address,
// and a resolver that has names for it.
package peer

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/belljar/belljar/test/need"
)

// Peer looks like a machine on the network to sandboxes.
type Peer struct {
	Address  string // for its ports 80 and 443
	CA       []byte // PEM of the certificate that signed its own
	Resolver string // for SANDBOX_EGRESS_RESOLVER
	// Slow receives the address of each client of /slow, whose response begins but does not end before the client is gone; then Gone
	// receives the address.
	Slow, Gone chan string

	mux   *http.ServeMux
	mu    sync.Mutex
	hosts map[string]int // hosts of requests
	asked map[string]int // queried names
	lies  map[string][]netip.Addr
}

// Handle serves a path.
func (p *Peer) Handle(path string, h http.HandlerFunc) { p.mux.HandleFunc(path, h) }

// Lie gives a name its own addresses: each query returns the next one, and the last one repeats. The name "*" is every other
// name.
func (p *Peer) Lie(name string, answers ...netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lies[name] = answers
}

// Hosts returns the hosts of requests, with counts.
func (p *Peer) Hosts() map[string]int { return p.copy(p.hosts) }

// Asked returns the queried names, with counts.
func (p *Peer) Asked() map[string]int { return p.copy(p.asked) }

func (p *Peer) copy(m map[string]int) map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(m)
}

func (p *Peer) count(m map[string]int, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m[key]++
}

// lie returns the address for a query of a name in Lie.
func (p *Peer) lie(name string, kind dnsmessage.Type, known bool) (addr netip.Addr, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list, ok := p.lies[name]
	if !ok && !known {
		name = "*"
		list, ok = p.lies[name]
	}
	if !ok {
		return addr, false
	}
	addr = list[0]
	if len(list) > 1 && kind == dnsmessage.TypeA { // clients query both kinds
		p.lies[name] = list[1:]
	}
	return addr, true
}

// Start starts a peer with names. It ends with the test. Its ports need root.
func Start(t testing.TB, names ...string) *Peer {
	t.Helper()
	need.Root(t)
	p := &Peer{Address: Address(t), Slow: make(chan string, 8), Gone: make(chan string, 8), hosts: map[string]int{}, asked: map[string]int{}, lies: map[string][]netip.Addr{}}
	var pair tls.Certificate
	pair, p.CA = certificate(t, names)
	mux := http.NewServeMux()
	p.mux = mux
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p.count(p.hosts, r.Host)
		fmt.Fprintf(w, "hello from %s\n", r.Host)
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begun\n")
		_ = http.NewResponseController(w).Flush()
		p.Slow <- r.RemoteAddr
		<-r.Context().Done()
		p.Gone <- r.RemoteAddr
	})
	plain, err := net.Listen("tcp", net.JoinHostPort(p.Address, "80"))
	if err != nil {
		t.Fatal(err)
	}
	secret, err := tls.Listen("tcp", net.JoinHostPort(p.Address, "443"), &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: mux, ErrorLog: log.New(io.Discard, "", 0)} // clients that do not trust the CA
	t.Cleanup(func() { server.Close() })
	for _, l := range []net.Listener{plain, secret} {
		go func() { _ = server.Serve(l) }()
	}
	p.resolve(t, names)
	return p
}

// Address returns a loopback address that no other test uses.
func Address(t testing.TB) string {
	var b [3]byte
	if _, err := rand.Read(b[:]); err != nil {
		t.Fatal(err)
	}
	return netip.AddrFrom4([4]byte{127, 128 + b[0]/2, b[1], 1 + b[2]/2}).String()
}

// resolve serves DNS: A records of names, and of every name below one that begins with *.
func (p *Peer) resolve(t testing.TB, names []string) {
	conn, err := net.ListenPacket("udp", net.JoinHostPort(p.Address, "53"))
	if err != nil {
		t.Fatal(err)
	}
	p.Resolver = conn.LocalAddr().String()
	t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer, err := p.answer(buf[:n], names); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
}

func (p *Peer) answer(query []byte, names []string) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		return nil, fmt.Errorf("no question: %w", err)
	}
	q := m.Questions[0]
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RCode: dnsmessage.RCodeNameError}, Questions: m.Questions}
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	p.count(p.asked, name)
	for _, known := range names {
		if parent, wild := strings.CutPrefix(known, "*"); name != known && (!wild || !strings.HasSuffix(name, parent)) {
			continue
		}
		if reply.RCode = dnsmessage.RCodeSuccess; q.Type == dnsmessage.TypeA {
			reply.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(p.Address).As4()},
			}}
		}
		break
	}
	if addr, ok := p.lie(name, q.Type, reply.RCode == dnsmessage.RCodeSuccess); ok {
		reply.RCode, reply.Answers = dnsmessage.RCodeSuccess, nil
		head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 0}
		switch {
		case q.Type == dnsmessage.TypeA && addr.Is4():
			reply.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AResource{A: addr.As4()}}}
		case q.Type == dnsmessage.TypeAAAA && addr.Is6():
			reply.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}}}
		}
	}
	return reply.Pack()
}

// certificate makes a CA, and a certificate for names that it signs.
func certificate(t testing.TB, names []string) (tls.Certificate, []byte) {
	fail := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fail(err)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	signed, err := x509.CreateCertificate(rand.Reader, ca, ca, &authority.PublicKey, authority)
	fail(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fail(err)
	leaf, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: names[0]}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		DNSNames: names, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, &key.PublicKey, authority)
	fail(err)
	var text bytes.Buffer
	fail(pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: signed}))
	return tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: key}, text.Bytes()
}
