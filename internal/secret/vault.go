// Package secret encrypts secrets at rest.
package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// KeySize is the length of a key in bytes.
const KeySize = 32

// version begins the result of [Vault.Seal], followed by the key's mark, the nonce and the ciphertext.
const version = 1

// markSize is the length of the mark of a key.
const markSize = 4

// ErrSealed means that sealed bytes cannot be decrypted: they are damaged, or were sealed with another key or another context
// (about).
var ErrSealed = errors.New("sealed bytes cannot be opened")

// Vault seals secrets with AES-256-GCM. It is immutable and safe for concurrent use.
type Vault struct{ keys []key } // the first one seals

type key struct {
	mark [markSize]byte
	aead cipher.AEAD
}

// New returns a vault that seals with the first key and opens with any of them. A key has [KeySize] random bytes.
func New(keys ...[]byte) (*Vault, error) {
	v := &Vault{}
	for _, raw := range keys {
		if len(raw) != KeySize {
			return nil, fmt.Errorf("key of %d bytes, not %d", len(raw), KeySize)
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		k := key{aead: aead}
		sum := sha256.Sum256(append([]byte("belljar key "), raw...))
		copy(k.mark[:], sum[:])
		v.keys = append(v.keys, k)
	}
	if len(v.keys) == 0 {
		return nil, errors.New("no key")
	}
	return v, nil
}

// NewKey returns a key.
func NewKey() []byte {
	raw := make([]byte, KeySize)
	rand.Read(raw)
	return raw
}

// Temporary returns a vault with a key that ends with the process.
func Temporary() *Vault {
	v, err := New(NewKey())
	if err != nil {
		panic(err) // cannot fail: the key has the right size
	}
	return v
}

// Seal encrypts plain and binds it to a context, about. Open needs the same context, which is not secret.
func (v *Vault) Seal(plain []byte, about string) []byte {
	k := v.keys[0]
	out := append([]byte{version}, k.mark[:]...)
	nonce := make([]byte, k.aead.NonceSize())
	rand.Read(nonce)
	return k.aead.Seal(append(out, nonce...), nonce, plain, []byte(about))
}

// Open decrypts the result of Seal. The error is [ErrSealed].
func (v *Vault) Open(sealed []byte, about string) ([]byte, error) {
	for _, k := range v.keys {
		head := 1 + markSize + k.aead.NonceSize()
		if len(sealed) < head || sealed[0] != version || [markSize]byte(sealed[1:]) != k.mark {
			continue
		}
		if plain, err := k.aead.Open(nil, sealed[1+markSize:head], sealed[head:], []byte(about)); err == nil {
			return plain, nil
		}
	}
	return nil, ErrSealed
}

// Current reports whether sealed was encrypted with the vault's first key.
func (v *Vault) Current(sealed []byte) bool {
	return len(sealed) > markSize && [markSize]byte(sealed[1:]) == v.keys[0].mark
}
