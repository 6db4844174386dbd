package terminal

import (
	"errors"
	"time"

	"github.com/belljar/belljar/internal/api"
)

// The prefix and the fixed claims of this door's tokens.
const (
	tokenPrefix   = "p1."
	tokenAudience = "belljar"
	tokenKind     = "terminal"
	tokenRuntime  = "belljar"
)

// errNoToken is the error of every invalid token; it does not give the reason.
var errNoToken = errors.New("token is invalid or expired")

// claims are the payload of a client's session_id (docs/compatibility.md#terminals).
type claims struct {
	Audience  string `json:"aud"`
	Runtime   string `json:"provider"`
	Terminal  string `json:"exec_id"`
	Kind      string `json:"kind"`
	User      string `json:"user_id"`
	Session   string `json:"workspace_id"`
	IssuedAt  int64  `json:"issued_at"` // Unix seconds, as is ExpiresAt
	ExpiresAt int64  `json:"expires_at"`
}

// tokens issues and verifies tokens.
type tokens struct {
	sealer *api.Sealer
	ttl    time.Duration
	now    func() time.Time
}

func newTokens(secret []byte, ttl time.Duration, now func() time.Time) *tokens {
	return &tokens{api.NewSealer(secret, tokenPrefix, "belljar terminal session, version 1"), ttl, now}
}

// issue returns a token for a user's terminal, and when it expires.
func (t *tokens) issue(user, session, terminal string) (string, time.Time, error) {
	now := t.now()
	c := claims{
		Audience: tokenAudience, Runtime: tokenRuntime, Terminal: terminal, Kind: tokenKind, User: user, Session: session,
		IssuedAt: now.Unix(), ExpiresAt: now.Add(t.ttl).Unix(),
	}
	token, err := t.sealer.Seal(c)
	return token, time.Unix(c.ExpiresAt, 0).UTC(), err
}

// read returns a token's claims if it is valid and issued to the user.
func (t *tokens) read(user, token string) (claims, error) {
	var c claims
	now := t.now().Unix()
	err := t.sealer.Open(token, &c)
	if err != nil || c.Audience != tokenAudience || c.Kind != tokenKind || c.User != user || now >= c.ExpiresAt || c.IssuedAt > now+60 {
		return claims{}, errNoToken
	}
	return c, nil
}
