package stream

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/belljar/belljar"
)

// signedPrefix begins every signed token and tells its version.
const signedPrefix = "s1."

// maxToken is the longest token that is looked at.
const maxToken = 2 << 10

var errForged = errors.New("token is not one of ours")

// pass is what a signed URL's token says: who may open which run's stream, and until when.
type pass struct {
	User    string       `json:"u"`
	Role    belljar.Role `json:"r"`
	Run     string       `json:"run"`
	Expires int64        `json:"exp"` // Unix seconds
}

// expiry is how the URL says when the pass expires.
func (p pass) expiry() string { return time.Unix(p.Expires, 0).UTC().Format(time.RFC3339) }

// signer makes and opens passes.
type signer struct{ key []byte }

// newSigner derives the key from a secret that may have other uses.
func newSigner(secret []byte) signer {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("belljar signed stream url, version 1"))
	return signer{mac.Sum(nil)}
}

func (s signer) sum(payload []byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write(payload)
	return mac.Sum(nil)
}

// sign returns the token: version, payload and HMAC-SHA256.
func (s signer) sign(p pass) (string, error) {
	payload, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	enc := base64.RawURLEncoding
	return signedPrefix + enc.EncodeToString(payload) + "." + enc.EncodeToString(s.sum(payload)), nil
}

// open returns what a token of ours says. It does not look at the clock.
func (s signer) open(token string) (pass, error) {
	payload, sum, err := splitToken(token)
	if err != nil || !hmac.Equal(sum, s.sum(payload)) {
		return pass{}, errForged
	}
	var p pass
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		return pass{}, errForged
	}
	if _, err := dec.Token(); err != io.EOF {
		return pass{}, errForged
	}
	return p, nil
}

// splitToken takes a token apart. Only one text stands for the same bytes.
func splitToken(token string) (payload, sum []byte, err error) {
	rest, ok := strings.CutPrefix(token, signedPrefix)
	if !ok || len(token) > maxToken || strings.ContainsAny(rest, "\r\n") {
		return nil, nil, errForged
	}
	a, b, ok := strings.Cut(rest, ".")
	if !ok {
		return nil, nil, errForged
	}
	enc := base64.RawURLEncoding.Strict()
	if payload, err = enc.DecodeString(a); err != nil {
		return nil, nil, errForged
	}
	if sum, err = enc.DecodeString(b); err != nil || len(sum) != sha256.Size {
		return nil, nil, errForged
	}
	return payload, sum, nil
}
