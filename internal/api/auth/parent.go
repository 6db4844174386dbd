package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/belljar/belljar"
)

// Kinds of parents: the operator's key, and JWTs. [SignIns] names the parents that are other API keys.
const (
	operatorParent = "operator"
	sharedParent   = "jwt"
	providerParent = "oidc"
)

// parent returns the name of a credential for the record of a sign-in: its kind, a fingerprint of its origin (by), and its expiry in
// Unix seconds, 0 for none. A sign-in ends if the server is restarted with another key, secret or issuer.
func (a *Authenticator) parent(kind, by string, expires int64) string {
	mac := hmac.New(sha256.New, a.opts.Secret)
	mac.Write([]byte("parent of a sign-in\x00" + kind + "\x00" + by))
	return kind + ":" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16]) + ":" + strconv.FormatInt(expires, 10)
}

// origin returns the key, secret or issuer that credentials of a kind depend on, "" if the server accepts none.
func (a *Authenticator) origin(kind string) string {
	switch kind {
	case operatorParent:
		return a.opts.Key
	case sharedParent:
		return string(a.opts.JWTSecret)
	case providerParent:
		if a.opts.Issuer != "" {
			return a.opts.Issuer + "\x00" + a.opts.Audience
		}
	}
	return ""
}

// checkParent refuses a sign-in whose credential is no longer valid. It passes parents of other kinds, which [SignIns] has checked.
func (a *Authenticator) checkParent(parent string) error {
	kind, rest, _ := strings.Cut(parent, ":")
	if kind != operatorParent && kind != sharedParent && kind != providerParent {
		return nil
	}
	_, end, _ := strings.Cut(rest, ":")
	expires, err := strconv.ParseInt(end, 10, 64)
	by := a.origin(kind)
	if err != nil || by == "" || !hmac.Equal([]byte(parent), []byte(a.parent(kind, by, expires))) {
		return refusal{"ended_login", wrong()}
	}
	if expires > 0 && a.opts.Now().Unix() >= expires {
		return refusal{"expired_login", &belljar.Error{Code: belljar.CodeUnauthorized, Message: "sign-in has expired", Hint: "sign in again"}}
	}
	return nil
}

// expiry returns the expiry of a JWT as a parent, the zero time for others.
func expiry(parent string) time.Time {
	kind, rest, _ := strings.Cut(parent, ":")
	if kind != sharedParent && kind != providerParent {
		return time.Time{}
	}
	_, end, _ := strings.Cut(rest, ":")
	expires, _ := strconv.ParseInt(end, 10, 64) // the parent is ours
	return time.Unix(expires, 0)
}
