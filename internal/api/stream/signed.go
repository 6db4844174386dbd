package stream

import (
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// signedPrefix is the prefix of signed tokens, with their version.
const signedPrefix = "s1."

// claims are the content of a signed URL's token: the user, the run whose stream the user may open, and the expiry.
type claims struct {
	User    string       `json:"u"`
	Role    belljar.Role `json:"r"`
	Run     string       `json:"run"`
	Expires int64        `json:"exp"` // Unix seconds
}

// expiry returns the expiry as the URL has it.
func (c claims) expiry() string { return time.Unix(c.Expires, 0).UTC().Format(time.RFC3339) }

// signer makes and opens tokens.
type signer struct{ *api.Sealer }

// newSigner derives the key from a secret that may have other uses.
func newSigner(secret []byte) signer {
	return signer{api.NewSealer(secret, signedPrefix, "belljar signed stream url, version 1")}
}

// sign returns claims as a token.
func (s signer) sign(c claims) (string, error) { return s.Seal(c) }

// open returns the claims of a valid token. It does not check the expiry.
func (s signer) open(token string) (c claims, err error) {
	err = s.Open(token, &c)
	return c, err
}
