package api

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// maxSealed is the maximum length of a token, in bytes.
const maxSealed = 2 << 10

// ErrForged is the error of every invalid token.
var ErrForged = errors.New("token is not one of ours")

// Sealer makes signed tokens: a prefix, a JSON payload and its HMAC-SHA256. Only sealers made by [NewCipher] encrypt the
// payload. The caller checks the payload's contents, such as an expiry.
type Sealer struct {
	prefix string
	key    []byte
	aead   cipher.AEAD // nil if the payload is not encrypted
}

// NewSealer returns a sealer whose tokens begin with prefix. Its key is derived from secret, which may have other uses,
// and purpose: a token of one purpose is invalid for another.
func NewSealer(secret []byte, prefix, purpose string) *Sealer {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(purpose))
	return &Sealer{prefix: prefix, key: mac.Sum(nil)}
}

// NewCipher is [NewSealer] for tokens whose payload only the server can read: they are encrypted and signed by AES-256-GCM.
func NewCipher(secret []byte, prefix, purpose string) *Sealer {
	s := NewSealer(secret, prefix, purpose)
	block, err := aes.NewCipher(s.key)
	if err == nil {
		s.aead, err = cipher.NewGCM(block)
	}
	if err != nil {
		panic(err) // cannot fail with a key of 32 bytes
	}
	return s
}

func (s *Sealer) sum(payload []byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write(payload)
	return mac.Sum(nil)
}

// Seal returns a token with the payload v.
func (s *Sealer) Seal(v any) (string, error) {
	payload, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	enc := base64.RawURLEncoding
	if s.aead != nil {
		nonce := make([]byte, s.aead.NonceSize())
		_, _ = rand.Read(nonce) // never fails
		return s.prefix + enc.EncodeToString(s.aead.Seal(nonce, nonce, payload, nil)), nil
	}
	return s.prefix + enc.EncodeToString(payload) + "." + enc.EncodeToString(s.sum(payload)), nil
}

// Open decodes a token's payload into v. The error is [ErrForged].
func (s *Sealer) Open(token string, v any) error {
	payload, ok := s.payload(token)
	if !ok {
		return ErrForged
	}
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return ErrForged
	}
	if _, err := dec.Token(); err != io.EOF {
		return ErrForged
	}
	return nil
}

// payload returns a token's payload if it is one of this sealer's. Each token has only one valid spelling.
func (s *Sealer) payload(token string) (payload []byte, ok bool) {
	rest, ours := strings.CutPrefix(token, s.prefix)
	if !ours || len(token) > maxSealed || strings.ContainsAny(rest, "\r\n") {
		return nil, false
	}
	enc := base64.RawURLEncoding.Strict()
	head, tail, cut := strings.Cut(rest, ".")
	payload, err := enc.DecodeString(head)
	if err != nil || cut == (s.aead != nil) {
		return nil, false
	}
	if s.aead != nil {
		n := s.aead.NonceSize()
		if len(payload) < n {
			return nil, false
		}
		payload, err = s.aead.Open(nil, payload[:n], payload[n:], nil)
		return payload, err == nil
	}
	sum, err := enc.DecodeString(tail)
	return payload, err == nil && hmac.Equal(sum, s.sum(payload))
}
