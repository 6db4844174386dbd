package auth

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

const (
	// retryProvider is the pause before a provider that could not be reached is retried.
	retryProvider = 5 * time.Second
	// freshKeys is the minimum interval between fetches of the keys, so that tokens with invented key ids do not cause a
	// request each.
	freshKeys = 10 * time.Second
	// maxKeys is the maximum size of the keys in bytes.
	maxKeys = 1 << 20
	// staleKeys is the age at which the keys are replaced, so that a key that the provider has withdrawn is refused. While they cannot
	// be fetched, that is retried each staleRetry, and the old keys are used until lastKeys.
	staleKeys  = 10 * time.Minute
	staleRetry = time.Minute
	lastKeys   = time.Hour
)

// errFresh means that the keys were fetched too recently to fetch them again.
var errFresh = errors.New("the provider's keys are fresh")

// provider verifies the tokens of an OpenID provider. It fetches the provider's metadata on first use.
type provider struct {
	issuer, audience string
	client           *http.Client
	now              func() time.Time
	log              *slog.Logger
	throttle         api.LogThrottle

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier // nil until the metadata is fetched
	failed   error                 // of the last fetch
	tried    time.Time             // when that failed
}

func newProvider(opts Options) *provider {
	client := opts.Client
	if client == nil {
		client = &http.Client{Timeout: 5 * time.Second}
	}
	return &provider{issuer: opts.Issuer, audience: opts.Audience, client: client, now: opts.Now, log: opts.Logger}
}

// verify returns the claims of a token.
func (p *provider) verify(ctx context.Context, raw string) ([]byte, error) {
	verifier, err := p.reach(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	var outage error
	token, err := verifier.Verify(context.WithValue(ctx, outageKey{}, &outage), raw)
	switch {
	case ctx.Err() != nil:
		return nil, unavailable(ctx.Err())
	case outage != nil:
		p.logFault("the identity provider's keys cannot be fetched", outage)
		return nil, unavailable(outage)
	case err != nil:
		return nil, bad(err)
	case !p.now().Before(token.Expiry.Add(leeway)):
		return nil, expired(&oidc.TokenExpiredError{Expiry: token.Expiry})
	}
	var claims json.RawMessage
	var when times
	if err := errors.Join(token.Claims(&claims), token.Claims(&when)); err != nil {
		return nil, bad(err)
	}
	if err := when.check(p.now()); err != nil {
		return nil, bad(err)
	}
	return claims, nil
}

// times are the claims that go-oidc does not check strictly enough.
type times struct {
	NotBefore json.Number `json:"nbf"`
	IssuedAt  json.Number `json:"iat"`
}

func (t times) check(now time.Time) error {
	for name, claim := range map[string]json.Number{"nbf": t.NotBefore, "iat": t.IssuedAt} {
		if claim == "" {
			continue
		}
		sec, err := claim.Float64()
		if err != nil || sec > float64(now.Add(leeway).Unix()) {
			return fmt.Errorf("%s is in the future", name)
		}
	}
	return nil
}

// reach returns the verifier of tokens. After a failure it retries only after retryProvider.
func (p *provider) reach(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.verifier != nil {
		return p.verifier, nil
	}
	if p.failed != nil && p.now().Sub(p.tried) < retryProvider {
		return nil, p.failed
	}
	// The result serves all callers, so the end of this one's request must not count as a failure of the provider.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(p.client.Timeout, retryProvider))
	defer cancel()
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.issuer)
	var claims struct {
		Keys string `json:"jwks_uri"`
	}
	if err == nil {
		err = found.Claims(&claims)
	}
	if err == nil && claims.Keys == "" {
		err = errors.New("the provider names no jwks_uri")
	}
	if err != nil {
		p.failed, p.tried = err, p.now()
		p.logFault("identity provider cannot be reached", err)
		return nil, err
	}
	fetch := &http.Client{Transport: &fetcher{next: p.client, now: p.now}}
	open := func() oidc.KeySet {
		return oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), fetch), claims.Keys)
	}
	keys := &keySet{provider: p, open: open, used: open(), since: p.now()}
	p.verifier = oidc.NewVerifier(p.issuer, keys, &oidc.Config{
		ClientID: p.audience, SupportedSigningAlgs: []string{oidc.RS256, oidc.ES256}, Now: p.now,
		SkipExpiryCheck: true, // it precedes that of the signature, and tolerates nothing
	})
	p.failed = nil
	return p.verifier, nil
}

func (p *provider) logFault(fault string, err error) {
	if p.throttle.Due(fault, err, p.now()) {
		p.log.Error(fault, "issuer", p.issuer, "err", err)
	}
}

type outageKey struct{}

// keySet distinguishes a token without a matching key from keys that cannot be fetched; the verifier's error does not. It replaces
// keys that are stale: the library's set fetches others only for a key that it does not have.
type keySet struct {
	provider *provider
	open     func() oidc.KeySet // without keys: it fetches them for its first token

	mu    sync.Mutex
	used  oidc.KeySet
	next  oidc.KeySet // replaces used once it has keys; nil while used is fresh
	since time.Time   // when used was made
	tried time.Time   // when next failed
	cause error       // why
}

// VerifySignature reports an outage through the context.
func (k *keySet) VerifySignature(ctx context.Context, raw string) ([]byte, error) {
	used, next, last := k.sets()
	payload, err := next.VerifySignature(ctx, raw)
	outage := fetchFailed(err)
	if next != used {
		if !outage {
			k.replace(next)
		} else if ctx.Err() == nil {
			if err = k.failed(err, last); err == nil {
				payload, err = used.VerifySignature(ctx, raw)
				outage = fetchFailed(err)
			}
		}
	}
	if to, ok := ctx.Value(outageKey{}).(*error); ok && outage && !errors.Is(err, errFresh) {
		*to = err
	}
	return payload, err
}

// fetchFailed reports whether keys could not be fetched: only then the error is wrapped.
func fetchFailed(err error) bool { return errors.Unwrap(err) != nil }

// sets returns the keys in use, and those to verify a token with first. last means that the keys in use are too old to use them.
func (k *keySet) sets() (used, next oidc.KeySet, last bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.provider.now()
	age := now.Sub(k.since)
	if age < staleKeys || age < lastKeys && now.Sub(k.tried) < staleRetry {
		return k.used, k.used, false
	}
	if k.next == nil {
		k.next = k.open()
	}
	return k.used, k.next, age >= lastKeys
}

// replace uses a set that has fetched its keys.
func (k *keySet) replace(next oidc.KeySet) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.next == next {
		k.used, k.next, k.since = next, nil, k.provider.now()
	}
}

// failed notes that the next set could not fetch its keys. It returns the error if those in use cannot verify a token meanwhile because
// they are the last ones and too old. They are not if they were fetched just now for another token, unless what was fetched was damaged.
func (k *keySet) failed(err error, last bool) error {
	now, fresh := k.provider.now(), errors.Is(err, errFresh)
	if !fresh {
		k.provider.logFault("the identity provider's keys cannot be renewed", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case !fresh:
		k.tried, k.cause = now, err
	case now.Sub(k.tried) >= freshKeys:
		return nil
	}
	if last {
		return k.cause
	}
	return nil
}

// fetcher limits the rate of requests for the provider's keys, after a success and after a failure.
type fetcher struct {
	next *http.Client
	now  func() time.Time

	mu     sync.Mutex
	last   time.Time
	failed error
}

// RoundTrip fetches the provider's keys.
func (f *fetcher) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	since := f.now().Sub(f.last)
	switch {
	case f.last.IsZero():
	case f.failed != nil && since < retryProvider:
		return nil, f.failed
	case f.failed == nil && since < freshKeys:
		return nil, errFresh
	}
	answer, err := f.next.Do(r)
	if err == nil {
		err = readKeys(answer)
	}
	f.last, f.failed = f.now(), err
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// readKeys reads an answer with keys into memory, so that one that breaks off or is no set of keys counts as a failed fetch.
func readKeys(answer *http.Response) error {
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("keys: %s", answer.Status)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxKeys))
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// unavailable returns the error for a token that cannot be verified at present. API keys still work.
func unavailable(err error) error {
	return refusal{"unavailable", &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: "tokens cannot be verified at present: their issuer is out of reach",
		Details: map[string]any{"component": "identity_provider", "retry_after_sec": int(retryProvider.Seconds())},
		Hint:    "try again later, or use an API key", Err: err,
	}}
}
