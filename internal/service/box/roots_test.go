package box

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/egress"
)

// TestRoots: the operator's certificates are added to the machine's.
func TestRoots(t *testing.T) {
	authority, err := egress.NewAuthority([]string{"git.example.com"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if pool, err := (Egress{}).Roots(); pool != nil || err != nil {
		t.Errorf("%v, %v", pool, err)
	}
	system, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	pool, err := Egress{CA: authority.PEM()}.Roots()
	if err != nil || pool.Equal(system) {
		t.Fatalf("nothing was added: %v", err)
	}
	if system.AppendCertsFromPEM(authority.PEM()); !pool.Equal(system) {
		t.Error("not the system's and that one")
	}
}
