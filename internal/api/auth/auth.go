// Package auth finds out who sends a request: by API key, by a JWT signed with a shared secret, or by a JWT of an OpenID
// provider. What it cannot verify it refuses, with one answer for every reason; the reason goes to the audit trail.
package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

// Options say who may come in. The zero value lets nobody in.
type Options struct {
	// Key is the operator's API key; "" is none. KeyID is the user that it stands for, "" is "operator".
	Key   string
	KeyID string
	// Keys finds the user of any other API key. Its error is [belljar.CodeUnauthorized] for a key that does not
	// exist; others are passed on. Nil knows no keys.
	Keys func(ctx context.Context, key string) (belljar.Caller, error)
	// JWTSecret verifies tokens signed with HS256; empty refuses them.
	JWTSecret []byte
	// Issuer is an OpenID provider whose tokens (RS256, ES256) are accepted if they are meant for Audience; "" is none.
	Issuer, Audience string
	// Client reaches the provider; nil is one with a timeout of 5 s.
	Client *http.Client
	// FailuresPerMin is how many wrong credentials one address may send; 0 is 30. One who is over it is not looked
	// at any more, unless he sends what was right before.
	FailuresPerMin int
	// Events hears of every failure; nil is nobody.
	Events event.Sink
	// Logger hears when the provider cannot be reached; nil is silent.
	Logger *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Authenticator is an [api.Authenticator]. Make one with [New].
type Authenticator struct {
	opts     Options
	keyHash  [sha256.Size]byte
	provider *provider // nil without an issuer
	failures *api.Buckets
	known    *known
}

var _ api.Authenticator = (*Authenticator)(nil)

// New returns an authenticator. It reaches no network: an OpenID provider is looked up when the first of its tokens
// comes.
func New(opts Options) (*Authenticator, error) {
	if len(opts.JWTSecret) > 0 && len(opts.JWTSecret) < 32 {
		return nil, errors.New("auth: the JWT secret has fewer than 32 bytes")
	}
	if (opts.Issuer == "") != (opts.Audience == "") {
		return nil, errors.New("auth: issuer and audience go together")
	}
	if opts.KeyID == "" {
		opts.KeyID = "operator"
	}
	if opts.FailuresPerMin == 0 {
		opts.FailuresPerMin = 30
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	a := &Authenticator{
		opts: opts, keyHash: sha256.Sum256([]byte(opts.Key)),
		failures: api.NewBuckets(opts.FailuresPerMin, 0, opts.Now), known: newKnown(),
	}
	if opts.Issuer != "" {
		a.provider = newProvider(opts)
	}
	return a, nil
}

// Authenticate finds out who sent a request by its Authorization or X-API-KEY header. The error is
// [belljar.CodeUnauthorized] for credentials that are missing or wrong, [belljar.CodeRateLimited] for an address that
// sends too many wrong ones, and [belljar.CodeRuntimeUnavailable] for a token whose issuer cannot be reached.
func (a *Authenticator) Authenticate(r *http.Request) (belljar.Caller, error) {
	address := api.Network(api.CallerOf(r.Context()).Address)
	cred, err := credentialOf(r.Header)
	if err != nil {
		return belljar.Caller{}, a.refuse(r, address, err)
	}
	if err := a.slow(address, cred); err != nil {
		return belljar.Caller{}, a.refuse(r, address, err)
	}
	c, err := a.identify(r.Context(), cred)
	if err != nil {
		return belljar.Caller{}, a.refuse(r, address, err)
	}
	a.known.add(address, cred.text)
	return c, nil
}

// identify is who has this credential.
func (a *Authenticator) identify(ctx context.Context, cred credential) (belljar.Caller, error) {
	if a.operator(cred.text) {
		return belljar.Caller{ID: a.opts.KeyID, Role: belljar.RoleAdmin}, nil
	}
	if cred.bearer && looksLikeJWT(cred.text) {
		return a.token(ctx, cred.text)
	}
	if a.opts.Keys == nil {
		return belljar.Caller{}, refusal{"unknown_key", wrong()}
	}
	c, err := a.opts.Keys(ctx, cred.text)
	switch {
	case belljar.CodeOf(err) == belljar.CodeUnauthorized:
		return belljar.Caller{}, refusal{"unknown_key", wrong()}
	case err != nil:
		return belljar.Caller{}, err
	case c.ID == "":
		return belljar.Caller{}, fmt.Errorf("an API key has no user")
	}
	return c, nil
}

// operator reports whether key is the operator's. Hashes have one length, so that the time tells nothing.
func (a *Authenticator) operator(key string) bool {
	given := sha256.Sum256([]byte(key))
	return subtle.ConstantTimeCompare(given[:], a.keyHash[:]) == 1 && a.opts.Key != ""
}

// slow refuses an address that has sent too many wrong credentials, but for one that it sent rightly before: who
// shares an address with a guesser is not locked out.
func (a *Authenticator) slow(address string, cred credential) error {
	wait := a.failures.Peek(address)
	if wait <= 0 || address == "" || a.known.has(address, cred.text) {
		return nil
	}
	return refusal{"rate_limited", &belljar.Error{
		Code: belljar.CodeRateLimited, Message: "too many wrong credentials from this address",
		Details: map[string]any{"retry_after_sec": int(math.Ceil(wait.Seconds())), "scope": "authentication"},
	}}
}

// refusal is a failure that is the caller's, and why, in one word, for the audit trail.
type refusal struct {
	reason string
	err    *belljar.Error
}

func (f refusal) Error() string { return f.reason + ": " + f.err.Message }

// refuse puts a failure on record and returns what the caller is told.
func (a *Authenticator) refuse(r *http.Request, address string, err error) error {
	var f refusal
	if !errors.As(err, &f) {
		return err
	}
	switch f.reason {
	case "missing", "rate_limited", "unavailable": // nobody guessed
	default:
		a.failures.Take(address)
	}
	if a.opts.Events != nil {
		a.opts.Events.Record(event.Event{
			Name: event.AuthFailed, Time: a.opts.Now(), Caller: api.CallerOf(r.Context()), Component: "http",
			Reason: f.reason, Err: f.err.Err,
		})
	}
	return f.err
}

// wrong is the answer to every credential that is not right, whatever is wrong with it.
func wrong() *belljar.Error {
	return &belljar.Error{
		Code: belljar.CodeUnauthorized, Message: "credentials are not valid",
		Hint: "it may be mistyped, revoked, expired, or of another server",
	}
}
