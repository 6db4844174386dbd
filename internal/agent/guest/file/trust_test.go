//go:build linux

package file

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/wire"
)

func authorityPEM(t *testing.T, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestTrust tests that the bundle has the image's certificates and the sandbox's own authority, that every user can read
// it, and that it is written once.
func TestTrust(t *testing.T) {
	system, own := authorityPEM(t, "system"), authorityPEM(t, "own")
	folder := t.TempDir()
	image := filepath.Join(folder, "image.crt")
	pipe := filepath.Join(folder, "pipe") // an image may have any file in place of a bundle
	if err := unix.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(image, []byte(strings.TrimSpace(string(system))), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(folder, "trust")
	systems := []string{filepath.Join(folder, "missing"), folder, pipe, image, "/etc/passwd"}
	if err := writeTrust(dir, systems, own); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, wire.TrustBundle))
	if err != nil || string(got) != string(system)+string(own) {
		t.Errorf("%v\n%s", err, got)
	}
	for _, name := range []string{wire.TrustBundle, wire.TrustStore} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != 0o444 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := writeTrust(dir, systems, own); !os.IsExist(err) {
		t.Errorf("a second time: %v", err)
	}
	if err := writeTrust(filepath.Join(folder, "bare"), nil, own); err != nil {
		t.Errorf("an image without a bundle: %v", err)
	}
}

// TestTrustStore reads a store as Java does.
func TestTrustStore(t *testing.T) {
	text := append(authorityPEM(t, "system"), authorityPEM(t, "own")...)
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "TRUSTED CERTIFICATE", Bytes: []byte("not of Java")})...)
	in := bytes.NewReader(trustStore(text))
	read := func(n any) {
		t.Helper()
		if err := binary.Read(in, binary.BigEndian, n); err != nil {
			t.Fatal(err)
		}
	}
	chars := func() string {
		var n uint16
		read(&n)
		b := make([]byte, n)
		read(b)
		return string(b)
	}
	var head struct{ Magic, Version, Count uint32 }
	if read(&head); head.Magic != 0xfeedfeed || head.Version != 2 || head.Count != 2 {
		t.Fatalf("%+v", head)
	}
	for i, want := range []string{"system", "own"} {
		var kind, size uint32
		var made uint64
		read(&kind)
		alias := chars()
		read(&made)
		format := chars()
		read(&size)
		der := make([]byte, size)
		read(der)
		cert, err := x509.ParseCertificate(der)
		if err != nil || cert.Subject.CommonName != want || kind != 2 || alias != fmt.Sprintf("authority-%d", i) || format != "X.509" {
			t.Errorf("%d %s %s: %v", kind, alias, format, err)
		}
	}
	if in.Len() != 20 {
		t.Errorf("%d bytes after the certificates", in.Len())
	}
}
