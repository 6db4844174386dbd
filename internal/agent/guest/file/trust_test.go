//go:build linux

package file

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
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

// TestTrust: the bundle has what the image trusts and the sandbox's own authority, for every user, and it is written once.
func TestTrust(t *testing.T) {
	system, own := authorityPEM(t, "system"), authorityPEM(t, "own")
	folder := t.TempDir()
	image := filepath.Join(folder, "image.crt")
	pipe := filepath.Join(folder, "pipe") // an image may put anything in the place of a bundle
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

// TestTrustStore: Java's own tool reads the store.
func TestTrustStore(t *testing.T) {
	tool, err := exec.LookPath("keytool")
	if err != nil {
		t.Fatal("keytool is missing: make packages installs it")
	}
	path := filepath.Join(t.TempDir(), "ca.jks")
	text := append(authorityPEM(t, "system"), authorityPEM(t, "own")...)
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "TRUSTED CERTIFICATE", Bytes: []byte("not of Java")})...)
	if err := os.WriteFile(path, trustStore(text), 0o600); err != nil {
		t.Fatal(err)
	}
	list := exec.Command(tool, "-list", "-v", "-keystore", path)
	list.Stdin = strings.NewReader("\n") // no password
	out, err := list.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "CN=system") || !strings.Contains(string(out), "CN=own") {
		t.Errorf("%v\n%s", err, out)
	}
}
