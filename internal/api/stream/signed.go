package stream

import (
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// signedPrefix begins every signed token and tells its version.
const signedPrefix = "s1."

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
type signer struct{ *api.Sealer }

// newSigner derives the key from a secret that may have other uses.
func newSigner(secret []byte) signer {
	return signer{api.NewSealer(secret, signedPrefix, "belljar signed stream url, version 1")}
}

// sign returns the pass as a token.
func (s signer) sign(p pass) (string, error) { return s.Seal(p) }

// open returns what a token of ours says. It does not look at the clock.
func (s signer) open(token string) (p pass, err error) {
	err = s.Open(token, &p)
	return p, err
}
