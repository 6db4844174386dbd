package terminal

import (
	"errors"
	"time"

	"github.com/belljar/belljar/internal/api"
)

// What tokens of this door begin with, and say of themselves.
const (
	tokenPrefix   = "p1."
	tokenAudience = "belljar"
	tokenKind     = "terminal"
	tokenRuntime  = "belljar"
)

// errNoToken says that a token does not lead anywhere. Why is nobody's business.
var errNoToken = errors.New("token is invalid or expired")

// claims are what a browser's session_id says (docs/compatibility.md#terminals).
type claims struct {
	Audience  string `json:"aud"`
	Runtime   string `json:"provider"`
	Terminal  string `json:"exec_id"`
	Kind      string `json:"kind"`
	User      string `json:"user_id"`
	Session   string `json:"workspace_id"`
	IssuedAt  int64  `json:"issued_at"` // Unix seconds, as the next
	ExpiresAt int64  `json:"expires_at"`
}

// tokens makes and reads them.
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

// read returns what a token says to the user that it was made for.
func (t *tokens) read(user, token string) (claims, error) {
	var c claims
	now := t.now().Unix()
	err := t.sealer.Open(token, &c)
	if err != nil || c.Audience != tokenAudience || c.Kind != tokenKind || c.User != user || now >= c.ExpiresAt || c.IssuedAt > now+60 {
		return claims{}, errNoToken
	}
	return c, nil
}
