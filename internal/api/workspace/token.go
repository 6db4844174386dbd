package workspace

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
	"strings"
	"time"
)

// The prefix and the audience of this door's tokens, and how long one may be, in bytes.
const (
	tokenPrefix   = "w1."
	tokenAudience = "belljar-workspace"
	maxToken      = 2 << 10
)

// The kinds of tokens. A pending one is of a session that its first use makes.
const (
	kindPTY     = "pty"
	kindChat    = "stream"
	kindPending = "pending"
)

// errToken is the error of every invalid token; it does not give the reason.
var errToken = errors.New("token is invalid or expired")

// claims are what a session_id stands for. Clients cannot read them.
type claims struct {
	Audience  string `json:"aud"`
	Mode      string `json:"provider"`
	ID        string `json:"exec_id"` // of a terminal or a chat; random if it is pending
	Kind      string `json:"kind"`
	User      string `json:"user_id"`
	Session   string `json:"workspace_id"`
	IssuedAt  int64  `json:"issued_at"` // Unix seconds, as is ExpiresAt
	ExpiresAt int64  `json:"expires_at"`
}

// tokens makes and reads tokens: claims, encrypted and signed (AES-256-GCM).
type tokens struct {
	aead cipher.AEAD
	ttl  time.Duration
	now  func() time.Time
}

func newTokens(secret []byte, ttl time.Duration, now func() time.Time) *tokens {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("belljar workspace session, version 1"))
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		panic(err) // a key of 32 bytes is none of its errors
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return &tokens{aead, ttl, now}
}

// issue returns a token with the claims, whose times it sets.
func (t *tokens) issue(c claims) (token string, expires time.Time, err error) {
	now := t.now()
	c.Audience, c.IssuedAt, c.ExpiresAt = tokenAudience, now.Unix(), now.Add(t.ttl).Unix()
	payload, err := json.Marshal(c)
	if err != nil {
		return "", time.Time{}, err
	}
	nonce := make([]byte, t.aead.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return "", time.Time{}, err
	}
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(t.aead.Seal(nonce, nonce, payload, nil)), time.Unix(c.ExpiresAt, 0).UTC(), nil
}

// read returns a token's claims if it is valid and of this user, workspace and mode.
func (t *tokens) read(token, user, session, mode string) (claims, error) {
	var c claims
	text, ours := strings.CutPrefix(token, tokenPrefix)
	if !ours || len(token) > maxToken || strings.ContainsAny(text, "\r\n") {
		return c, errToken
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if n := t.aead.NonceSize(); err == nil && len(sealed) > n {
		sealed, err = t.aead.Open(nil, sealed[:n], sealed[n:], nil)
	} else {
		err = errToken
	}
	if err != nil {
		return c, errToken
	}
	dec := json.NewDecoder(bytes.NewReader(sealed))
	dec.DisallowUnknownFields()
	now := t.now().Unix()
	if dec.Decode(&c) != nil || c.Audience != tokenAudience || c.User != user || c.Session != session || c.Mode != mode || now >= c.ExpiresAt || c.IssuedAt > now+60 {
		return claims{}, errToken
	}
	return c, nil
}

// token returns a token for something of a caller's workspace.
func (c *call) token(kind, id string) (string, time.Time, error) {
	return c.door.tokens.issue(claims{Mode: c.door.opts.Source.Mode(), ID: id, Kind: kind, User: c.caller.ID, Session: c.Session})
}

// claims reads a token of the caller's workspace.
func (c *call) claims(token string) (claims, error) {
	return c.door.tokens.read(token, c.caller.ID, c.Session, c.door.opts.Source.Mode())
}
