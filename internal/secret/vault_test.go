package secret_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/belljar/belljar/internal/secret"
)

func vault(t *testing.T, keys ...[]byte) *secret.Vault {
	t.Helper()
	v, err := secret.New(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVault(t *testing.T) {
	old, fresh, plain := secret.NewKey(), secret.NewKey(), []byte("correct horse")
	v := vault(t, old)
	sealed := v.Seal(plain, "ann")
	if bytes.Contains(sealed, plain[:5]) || bytes.Equal(sealed, v.Seal(plain, "ann")) {
		t.Error("it is not encrypted, or twice the same")
	}
	rotated := vault(t, fresh, old)
	for _, by := range []*secret.Vault{v, rotated} {
		if got, err := by.Open(sealed, "ann"); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%q, %v", got, err)
		}
	}
	if !v.Current(sealed) || rotated.Current(sealed) || !rotated.Current(rotated.Seal(plain, "ann")) || v.Current(nil) {
		t.Error("which key sealed what is not known")
	}
	refused := func(name string, by *secret.Vault, sealed []byte, about string) {
		t.Helper()
		if _, err := by.Open(sealed, about); !errors.Is(err, secret.ErrSealed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused("another's", v, sealed, "bob")
	refused("another key", vault(t, fresh), sealed, "ann")
	refused("another process", secret.Temporary(), sealed, "ann")
	for i := range sealed {
		bad := bytes.Clone(sealed)
		bad[i] ^= 1
		refused("a changed byte", v, bad, "ann")
		refused("a part", v, sealed[:i], "ann")
	}
	for _, keys := range [][][]byte{nil, {[]byte("short")}, {old, nil}} {
		if _, err := secret.New(keys...); err == nil {
			t.Errorf("a vault with keys %q", keys)
		}
	}
}
