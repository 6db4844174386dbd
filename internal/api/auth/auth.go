// Package auth authenticates requests: by API key, by a JWT signed with a shared secret, or by a JWT of an OpenID
// provider. Most failures get the same response; the reason is in the audit trail.
package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/user"
)

// Options configure an [Authenticator]. The zero value refuses every request.
type Options struct {
	// Key is the operator's API key; "" means none.
	Key string
	// Keys returns the user of any other API key. Its error is [belljar.CodeUnauthorized] for a key that does not
	// exist; other errors are returned unchanged. Nil means that there are no other keys.
	Keys func(ctx context.Context, key string) (belljar.Caller, error)
	// SignIns keeps the sign-ins to the web page; nil means that there are none. Secret seals their tokens: at least 32 bytes, secret,
	// and the same after a restart.
	SignIns SignIns
	Secret  []byte
	// Uses gets each request with a credential that can be revoked; nil means that requests do not end with their credential.
	Uses *api.Uses
	// PageURL returns the address of a path of the web page for the sender of r; nil means that there is no page.
	PageURL func(r *http.Request, path string) string
	// JWTSecret verifies tokens signed with HS256; if it is empty, they are refused.
	JWTSecret []byte
	// Issuer is an OpenID provider whose tokens (RS256, ES256) are accepted if they are for Audience; "" means none.
	Issuer, Audience string
	// Client is for requests to the provider; nil means one with a timeout of 5 s.
	Client *http.Client
	// FailuresPerMin limits the wrong credentials from one address; 0 means 30. Over the limit, credentials are refused
	// unverified, except those that were valid from this address before.
	FailuresPerMin int
	// Events gets every failure; nil discards them.
	Events event.Sink
	// Logger gets errors about the provider; nil discards them.
	Logger *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Authenticator is an [api.Authenticator]. Make one with [New].
type Authenticator struct {
	opts     Options
	keyHash  [sha256.Size]byte
	provider *provider // nil without an issuer
	failures *api.Buckets
	known    *known
	sealer   *api.Sealer // of sign-ins
}

var _ api.Authenticator = (*Authenticator)(nil)

// New returns an authenticator. It does not use the network: an OpenID provider is contacted for its first token.
func New(opts Options) (*Authenticator, error) {
	if len(opts.JWTSecret) > 0 && len(opts.JWTSecret) < 32 {
		return nil, errors.New("auth: the JWT secret has fewer than 32 bytes")
	}
	if opts.SignIns != nil && len(opts.Secret) < 32 {
		return nil, errors.New("auth: the secret for sign-ins has fewer than 32 bytes")
	}
	if (opts.Issuer == "") != (opts.Audience == "") {
		return nil, errors.New("auth: issuer and audience go together")
	}
	opts.Uses = cmp.Or(opts.Uses, &api.Uses{})
	opts.FailuresPerMin = cmp.Or(opts.FailuresPerMin, 30)
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Now == nil {
		opts.Now = time.Now
	}
	a := &Authenticator{
		opts: opts, keyHash: sha256.Sum256([]byte(opts.Key)),
		failures: api.NewBuckets(opts.FailuresPerMin, 0, opts.Now), known: newKnown(),
		sealer: api.NewSealer(opts.Secret, signInPrefix, "sign-in"),
	}
	if opts.Issuer != "" {
		a.provider = newProvider(opts)
	}
	return a, nil
}

// Authenticate returns the caller for the Authorization or X-API-KEY header. The error is [belljar.CodeUnauthorized] for
// missing or wrong credentials, [belljar.CodeRateLimited] for an address with too many wrong ones, and
// [belljar.CodeRuntimeUnavailable] for a token whose issuer cannot be reached.
func (a *Authenticator) Authenticate(r *http.Request) (belljar.Caller, error) {
	cred, err := credentialOf(r.Header)
	if err != nil {
		return belljar.Caller{}, a.refuse(r, err)
	}
	who, err := a.verify(r, cred)
	return who.caller, err
}

// verify returns the identity of a request with this credential, and counts wrong credentials.
func (a *Authenticator) verify(r *http.Request, cred credential) (identity, error) {
	address := network(r)
	err := a.limit(address, cred)
	var who identity
	for noted := false; err == nil && !noted; {
		revoked := a.opts.Uses.Revoked()
		if who, err = a.identify(r.Context(), cred); err == nil && user.Reserved(who.caller) {
			err = refusal{"reserved_user", wrong()}
		}
		if err == nil {
			noted = len(who.revocable) == 0 || a.opts.Uses.Note(r.Context(), revoked, who.revocable...)
		}
	}
	if err != nil {
		return identity{}, a.refuse(r, err)
	}
	a.known.add(address, cred.text)
	return who, nil
}

// network returns the address of a request's client, as the limits count it.
func network(r *http.Request) string { return api.Network(api.CallerOf(r.Context()).Address) }

// identity is a caller, and the parent of sign-ins with their credential: "" for a sign-in.
type identity struct {
	caller belljar.Caller
	parent string
	// revocable names the credential, and the credential that it was made with.
	revocable []string
}

// identify returns the identity with this credential.
func (a *Authenticator) identify(ctx context.Context, cred credential) (identity, error) {
	if a.operator(cred.text) {
		return a.operatorIdentity(), nil
	}
	if strings.HasPrefix(cred.text, signInPrefix) && a.opts.SignIns != nil {
		return a.signedIn(ctx, cred.text)
	}
	if cred.bearer && looksLikeJWT(cred.text) {
		return a.token(ctx, cred.text)
	}
	if a.opts.Keys == nil {
		return identity{}, refusal{"unknown_key", wrong()}
	}
	c, err := a.opts.Keys(ctx, cred.text)
	switch {
	case belljar.CodeOf(err) == belljar.CodeUnauthorized:
		return identity{}, refusal{"unknown_key", wrong()}
	case err != nil:
		return identity{}, err
	case c.ID == "":
		return identity{}, fmt.Errorf("an API key has no user")
	}
	who := identity{caller: c}
	if a.opts.SignIns != nil {
		who.parent = a.opts.SignIns.KeyParent(cred.text)
		who.revocable = []string{who.parent}
	}
	return who, nil
}

func (a *Authenticator) operatorIdentity() identity {
	return identity{caller: belljar.Caller{ID: user.Operator, Role: belljar.RoleAdmin}, parent: a.parent(operatorParent, a.opts.Key, 0)}
}

// operator reports whether key is the operator's. It compares hashes, so that the time does not reveal the length.
func (a *Authenticator) operator(key string) bool {
	given := sha256.Sum256([]byte(key))
	return subtle.ConstantTimeCompare(given[:], a.keyHash[:]) == 1 && a.opts.Key != ""
}

// limit refuses an address with too many wrong credentials, except for a credential that was valid from it before: a user
// who shares an address with an attacker is not locked out.
func (a *Authenticator) limit(address string, cred credential) error {
	wait := a.failures.Peek(address)
	if wait <= 0 || address == "" || a.known.has(address, cred.text) {
		return nil
	}
	return refusal{"rate_limited", &belljar.Error{
		Code: belljar.CodeRateLimited, Message: "too many wrong credentials from this address",
		Details: map[string]any{"retry_after_sec": int(math.Ceil(wait.Seconds())), "scope": "authentication"},
	}}
}

// refusal is an error of the caller, and its reason for the audit trail.
type refusal struct {
	reason string
	err    *belljar.Error
}

func (f refusal) Error() string { return f.reason + ": " + f.err.Message }

// refuse records a failure and returns the error for the caller.
func (a *Authenticator) refuse(r *http.Request, err error) error {
	var f refusal
	if !errors.As(err, &f) {
		return err
	}
	switch f.reason {
	case "missing", "rate_limited", "unavailable", "ended_login", "expired_login", "expired_token": // not a guess: an expired token has a valid signature
	default:
		a.failures.Take(network(r))
	}
	if a.opts.Events != nil {
		a.opts.Events.Record(event.Event{
			Name: event.AuthFailed, Time: a.opts.Now(), Caller: api.CallerOf(r.Context()), Component: "http",
			Reason: f.reason, Err: f.err.Err,
		})
	}
	return f.err
}

// wrong returns the error for every invalid credential.
func wrong() *belljar.Error {
	return &belljar.Error{
		Code: belljar.CodeUnauthorized, Message: "credentials are not valid",
		Hint: "the key or token may be mistyped, revoked, expired, or from another server",
	}
}
