package api

import (
	"bytes"
	"crypto/hmac"
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

// Sealer makes signed tokens: a prefix, a JSON payload and its HMAC-SHA256. The payload is not encrypted. The caller
// checks the payload's contents, such as an expiry.
type Sealer struct {
	prefix string
	key    []byte
}

// NewSealer returns a sealer whose tokens begin with prefix. Its key is derived from secret, which may have other uses,
// and purpose: a token of one purpose is invalid for another.
func NewSealer(secret []byte, prefix, purpose string) *Sealer {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(purpose))
	return &Sealer{prefix: prefix, key: mac.Sum(nil)}
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
	return s.prefix + enc.EncodeToString(payload) + "." + enc.EncodeToString(s.sum(payload)), nil
}

// Open decodes a token's payload into v. The error is [ErrForged].
func (s *Sealer) Open(token string, v any) error {
	payload, sum, ok := s.split(token)
	if !ok || !hmac.Equal(sum, s.sum(payload)) {
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

// split decodes a token's parts. Each token has only one valid spelling.
func (s *Sealer) split(token string) (payload, sum []byte, ok bool) {
	rest, ours := strings.CutPrefix(token, s.prefix)
	head, tail, cut := strings.Cut(rest, ".")
	if !ours || !cut || len(token) > maxSealed || strings.ContainsAny(rest, "\r\n") {
		return nil, nil, false
	}
	enc := base64.RawURLEncoding.Strict()
	payload, err := enc.DecodeString(head)
	if err != nil {
		return nil, nil, false
	}
	sum, err = enc.DecodeString(tail)
	return payload, sum, err == nil && len(sum) == sha256.Size
}
