package socket

import (
	"time"

	"github.com/belljar/belljar/internal/api"
)

// Claims are the content of a client's session_id (docs/compatibility.md#terminals).
type Claims struct {
	Audience  string `json:"aud"`
	Provider  string `json:"provider"`
	ID        string `json:"exec_id"` // of a terminal or a chat
	Kind      string `json:"kind"`
	User      string `json:"user_id"`
	Session   string `json:"workspace_id"`
	Run       string `json:"run_id,omitempty"`   // of a chat's program
	Template  string `json:"template,omitempty"` // of a terminal's program
	IssuedAt  int64  `json:"issued_at"`          // Unix seconds, as is ExpiresAt
	ExpiresAt int64  `json:"expires_at"`
}

// Tokens issues and reads the tokens with which clients reconnect.
type Tokens struct {
	Sealer   *api.Sealer
	Audience string
	TTL      time.Duration
	Now      func() time.Time
}

// Issue returns a token with the claims, and its expiry. It sets the claims' audience and times.
func (t *Tokens) Issue(c Claims) (token string, expires time.Time) {
	now := t.Now()
	c.Audience, c.IssuedAt, c.ExpiresAt = t.Audience, now.Unix(), now.Add(t.TTL).Unix()
	token, _ = t.Sealer.Seal(c) // strings and numbers always encode as JSON
	return token, time.Unix(c.ExpiresAt, 0).UTC()
}

// Read returns a token's claims if it is valid and belongs to want's user, and to want's provider, kind and session where they are
// set. It does not report why a token is invalid.
func (t *Tokens) Read(token string, want Claims) (c Claims, ok bool) {
	is := func(want, got string) bool { return want == "" || want == got }
	now := t.Now().Unix()
	ok = t.Sealer.Open(token, &c) == nil && c.Audience == t.Audience && c.User == want.User && is(want.Provider, c.Provider) &&
		is(want.Kind, c.Kind) && is(want.Session, c.Session) && now < c.ExpiresAt && c.IssuedAt <= now+60
	if !ok {
		return Claims{}, false
	}
	return c, true
}
