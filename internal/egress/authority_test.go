package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"
)

func testAuthority(t *testing.T, hosts ...string) *Authority {
	t.Helper()
	a, err := NewAuthority(hosts, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func trust(a *Authority) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.PEM())
	return pool
}

// TestAuthorityNames: a certificate of the authority's key for another host, or an address, is not accepted.
func TestAuthorityNames(t *testing.T) {
	a := testAuthority(t, "a.example.com")
	leaf, err := a.leaf("a.example.com", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	late := time.Now().Add(365 * 24 * time.Hour) // the end of the longest session
	last, err := a.leaf("a.example.com", late)
	if err != nil {
		t.Fatal(err)
	}
	for at, leaf := range map[time.Time]*x509.Certificate{time.Now(): leaf.Leaf, late: last.Leaf} {
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: "a.example.com", Roots: trust(a), CurrentTime: at}); err != nil {
			t.Error(err)
		}
	}
	if _, err := a.leaf("b.example.com", time.Now()); err == nil {
		t.Error("a leaf for a host that the authority is not for")
	}
	if !a.cert.PermittedDNSDomainsCritical {
		t.Error("the names are not critical")
	}
	if _, err := leaf.Leaf.Verify(x509.VerifyOptions{DNSName: "a.example.com", Roots: trust(testAuthority(t, "a.example.com"))}); err == nil {
		t.Error("another sandbox trusts the leaf")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, forged := range map[string]*x509.Certificate{
		"another host": {DNSNames: []string{"b.example.com"}},
		"both":         {DNSNames: []string{"a.example.com", "b.example.com"}},
		"an address":   {IPAddresses: []net.IP{net.IPv4(203, 0, 113, 7)}},
		"an authority": {DNSNames: []string{"a.example.com"}, IsCA: true, BasicConstraintsValid: true},
	} {
		forged.SerialNumber, forged.NotAfter = big.NewInt(1), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, forged, a.cert, key.Public(), a.key)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		opts := x509.VerifyOptions{Roots: trust(a)}
		if name == "an authority" {
			opts.Intermediates = x509.NewCertPool()
			opts.Intermediates.AddCert(cert)
			below := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: forged.NotAfter, DNSNames: []string{"a.example.com"}}
			der, err := x509.CreateCertificate(rand.Reader, below, cert, key.Public(), key)
			if err != nil {
				t.Fatal(err)
			}
			if cert, err = x509.ParseCertificate(der); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := cert.Verify(opts); err == nil {
			t.Errorf("%s: verified", name)
		}
	}
}

// TestAuthorityKept: the sandbox still trusts certificates from a stored authority.
func TestAuthorityKept(t *testing.T) {
	a := testAuthority(t, "a.example.com", "b.example.com")
	text, err := a.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseAuthority(text)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := again.leaf("b.example.com", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Leaf.Verify(x509.VerifyOptions{DNSName: "b.example.com", Roots: trust(a)}); err != nil {
		t.Error(err)
	}
	for _, bad := range [][]byte{nil, []byte("x"), a.PEM(), text[len(a.PEM()):]} {
		if _, err := ParseAuthority(bad); err == nil {
			t.Errorf("parsed %d bytes", len(bad))
		}
	}
}

// TestLeaf: a leaf is reused until half of its lifetime is over.
func TestLeaf(t *testing.T) {
	a := testAuthority(t, "a.example.com")
	now := time.Now()
	leaf := func(at time.Time) *x509.Certificate {
		l, err := a.leaf("a.example.com", at)
		if err != nil {
			t.Fatal(err)
		}
		return l.Leaf
	}
	first := leaf(now)
	if !leaf(now.Add(leafLife / 3)).Equal(first) {
		t.Error("a new leaf for each connection")
	}
	if later := leaf(now.Add(leafLife)); later.Equal(first) || !later.NotAfter.After(now.Add(leafLife)) {
		t.Error("an old leaf")
	}
}
