package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	authorityLife = 366 * 24 * time.Hour // a session can live for a year; its end deletes the key
	leafLife      = 24 * time.Hour
	clockSkew     = time.Hour
)

// Authority signs the certificates with which the gate terminates the TLS of one sandbox. Only that sandbox trusts it, and
// only for the hosts that its certificate names.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

// NewAuthority makes an authority for these hosts.
func NewAuthority(hosts []string, now time.Time) (*Authority, error) {
	if len(hosts) == 0 {
		return nil, errors.New("egress: an authority without hosts")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := certificate(now, authorityLife)
	if err != nil {
		return nil, err
	}
	template.Subject = pkix.Name{CommonName: "Belljar, for one sandbox"}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	template.PermittedDNSDomains, template.PermittedDNSDomainsCritical = hosts, true
	for _, every := range []string{"0.0.0.0/0", "::/0"} { // permitted names of one kind do not restrict other kinds
		_, ips, err := net.ParseCIDR(every)
		if err != nil {
			return nil, err
		}
		template.ExcludedIPRanges = append(template.ExcludedIPRanges, ips)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key, leaves: map[string]*tls.Certificate{}}, nil
}

// certificate returns the fields that all certificates share.
func certificate(now time.Time, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{SerialNumber: serial.Add(serial, big.NewInt(1)), NotBefore: now.Add(-clockSkew), NotAfter: now.Add(life)}, nil
}

const (
	certType = "CERTIFICATE"
	keyType  = "PRIVATE KEY"
)

// PEM returns the certificate that the sandbox trusts.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certType, Bytes: a.cert.Raw})
}

// Marshal returns the authority with its key, for [ParseAuthority].
func (a *Authority) Marshal() ([]byte, error) {
	key, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, err
	}
	return append(a.PEM(), pem.EncodeToMemory(&pem.Block{Type: keyType, Bytes: key})...), nil
}

// ParseAuthority parses the output of Marshal.
func ParseAuthority(text []byte) (*Authority, error) {
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, fmt.Errorf("egress: authority: %w", err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, errors.New("egress: not an authority")
	}
	return &Authority{cert: pair.Leaf, key: key, leaves: map[string]*tls.Certificate{}}, nil
}

// leaf returns the certificate of a host.
func (a *Authority) leaf(host string, now time.Time) (*tls.Certificate, error) {
	if !slices.Contains(a.cert.PermittedDNSDomains, host) {
		return nil, fmt.Errorf("egress: the authority is not for %s", host)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.leaves[host]; l != nil && now.Add(leafLife/2).Before(l.Leaf.NotAfter) {
		return l, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := certificate(now, leafLife)
	if err != nil {
		return nil, err
	}
	if len(host) <= 64 { // the maximum length of a common name
		template.Subject = pkix.Name{CommonName: host}
	}
	template.DNSNames = []string{host}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.BasicConstraintsValid = true
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	l := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: parsed}
	a.leaves[host] = l
	return l, nil
}
