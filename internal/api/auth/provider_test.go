package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/belljar/belljar"
)

// issuer is an OpenID provider.
type issuer struct {
	*httptest.Server

	mu         sync.Mutex
	down       bool
	keys       []map[string]string
	name       string // in its metadata; "" means its URL
	broken     string // served instead of the keys
	discovered int
	fetched    int
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.discovered++
		if i.down {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		name := i.name
		if name == "" {
			name = i.URL
		}
		json.NewEncoder(w).Encode(map[string]any{"issuer": name, "jwks_uri": i.URL + "/keys"})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.fetched++
		if i.down {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		if i.broken != "" {
			io.WriteString(w, i.broken)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"keys": i.keys})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) set(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

func (i *issuer) asked() (discovered, fetched int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.discovered, i.fetched
}

func (i *issuer) publish(id, alg string, key any) {
	number := func(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.Bytes()) }
	jwk := map[string]string{"kid": id, "alg": alg, "use": "sig"}
	switch k := key.(type) {
	case *rsa.PrivateKey:
		jwk["kty"], jwk["n"], jwk["e"] = "RSA", number(k.N), number(big.NewInt(int64(k.E)))
	case *ecdsa.PrivateKey:
		point, err := k.PublicKey.Bytes()
		if err != nil {
			panic(err)
		}
		jwk["kty"], jwk["crv"] = "EC", "P-256"
		jwk["x"], jwk["y"] = base64.RawURLEncoding.EncodeToString(point[1:33]), base64.RawURLEncoding.EncodeToString(point[33:])
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = append(i.keys, jwk)
}

// rsaKeys are a provider's key and a stranger's, made once: finding primes takes long.
var rsaKeys = sync.OnceValue(func() (keys [2]*rsa.PrivateKey) {
	for i := range keys {
		var err error
		if keys[i], err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			panic(err)
		}
	}
	return keys
})

func rsaKey() *rsa.PrivateKey       { return rsaKeys()[0] }
func strangersKey() *rsa.PrivateKey { return rsaKeys()[1] }

func TestProviderTokens(t *testing.T) {
	at, from := newClock(), newIssuer(t)
	rs := rsaKey()
	es, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	from.publish("r", "RS256", rs)
	from.publish("e", "ES256", es)
	a, recorded := newAuth(t, Options{Issuer: from.URL, Audience: "belljar", JWTSecret: []byte(secret), Now: at.now, FailuresPerMin: 1000})
	claims := func(more ...any) jwt.MapClaims {
		c := jwt.MapClaims{"iss": from.URL, "aud": "belljar", "sub": "ann", "exp": at.now().Add(time.Hour).Unix()}
		for i := 0; i < len(more); i += 2 {
			c[more[i].(string)] = more[i+1]
		}
		return c
	}
	kid := func(id string) map[string]any { return map[string]any{"kid": id} }
	public, err := json.Marshal(from.keys[0])
	if err != nil {
		t.Fatal(err)
	}
	user := belljar.Caller{ID: "ann", Role: belljar.RoleUser}
	for _, c := range []struct {
		name, token string
		who         belljar.Caller
		reason      string
	}{
		{"RS256", sign(t, jwt.SigningMethodRS256, rs, claims(), kid("r")), user, ""},
		{"ES256", sign(t, jwt.SigningMethodES256, es, claims("roles", []string{"sandbox_admin"}), kid("e")), belljar.Caller{ID: "ann", Role: belljar.RoleAdmin}, ""},
		{"many audiences", sign(t, jwt.SigningMethodRS256, rs, claims("aud", []string{"x", "belljar"}), kid("r")), user, ""},
		{"other audience", sign(t, jwt.SigningMethodRS256, rs, claims("aud", "x"), kid("r")), belljar.Caller{}, "invalid_token"},
		{"other issuer", sign(t, jwt.SigningMethodRS256, rs, claims("iss", "https://evil.example"), kid("r")), belljar.Caller{}, "invalid_token"},
		{"expired", sign(t, jwt.SigningMethodRS256, rs, claims("exp", at.now().Add(-time.Minute).Unix()), kid("r")), belljar.Caller{}, "expired_token"},
		{"expired, just", sign(t, jwt.SigningMethodRS256, rs, claims("exp", at.now().Add(-20*time.Second).Unix()), kid("r")), user, ""},
		{"expired, other key", sign(t, jwt.SigningMethodRS256, strangersKey(), claims("exp", 1), kid("r")), belljar.Caller{}, "invalid_token"},
		{"not before", sign(t, jwt.SigningMethodRS256, rs, claims("nbf", at.now().Add(2*time.Minute).Unix()), kid("r")), belljar.Caller{}, "invalid_token"},
		{"RS512", sign(t, jwt.SigningMethodRS512, rs, claims(), kid("r")), belljar.Caller{}, "invalid_token"},
		{"PS256", sign(t, jwt.SigningMethodPS256, rs, claims(), kid("r")), belljar.Caller{}, "invalid_token"},
		{"own key", sign(t, jwt.SigningMethodRS256, strangersKey(), claims(), kid("r")), belljar.Caller{}, "invalid_token"},
		{"unknown key id", sign(t, jwt.SigningMethodRS256, strangersKey(), claims(), kid("z")), belljar.Caller{}, "invalid_token"},
		{"public key as secret", sign(t, jwt.SigningMethodHS256, public, claims(), kid("r")), belljar.Caller{}, "invalid_token"},
		{"shared secret still", sign(t, jwt.SigningMethodHS256, []byte(secret), claims(), nil), user, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			recorded.list = nil
			who, err := a.Authenticate(request("Authorization: Bearer " + c.token))
			if who != c.who || recorded.last() != c.reason || (err == nil) != (c.reason == "") {
				t.Errorf("%+v, %v (%s), want %+v (%s)", who, err, recorded.last(), c.who, c.reason)
			}
		})
	}
	if discovered, fetched := from.asked(); discovered != 1 || fetched > 2 {
		t.Errorf("the provider was asked %d and %d times", discovered, fetched)
	}
}

func TestMadeUpKeyIDsDoNotReachTheProvider(t *testing.T) {
	at, from := newClock(), newIssuer(t)
	key, evil := rsaKey(), strangersKey()
	from.publish("1", "RS256", key)
	a, _ := newAuth(t, Options{Issuer: from.URL, Audience: "b", Now: at.now, FailuresPerMin: 1000})
	claims := jwt.MapClaims{"iss": from.URL, "aud": "b", "sub": "ann", "exp": at.now().Add(time.Hour).Unix()}
	good := sign(t, jwt.SigningMethodRS256, key, claims, map[string]any{"kid": "1"})
	if _, err := a.Authenticate(request("Authorization: Bearer " + good)); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		raw := sign(t, jwt.SigningMethodRS256, evil, claims, map[string]any{"kid": "x"})
		if _, err := a.Authenticate(request("Authorization: Bearer " + raw)); belljar.CodeOf(err) != belljar.CodeUnauthorized {
			t.Fatal(err)
		}
	}
	if _, fetched := from.asked(); fetched != 1 {
		t.Errorf("keys were fetched %d times", fetched)
	}
	// A new key of the provider is found.
	from.publish("2", "RS256", evil)
	at.pass(freshKeys)
	raw := sign(t, jwt.SigningMethodRS256, evil, claims, map[string]any{"kid": "2"})
	var err error
	for range 100 { // the library may still share the result of the last fetch, which failed
		if _, err = a.Authenticate(request("Authorization: Bearer " + raw)); err == nil {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("a new key: %v", err)
}

// Keys that come with status 200 but cannot be read are an outage, not a reason to count tokens as guesses.
func TestUnreadableKeysAreAnOutage(t *testing.T) {
	for _, broken := range []string{`{"keys": [`, `<html>`, `{"keys": [` + strings.Repeat(" ", maxKeys) + `]}`} {
		at, from := newClock(), newIssuer(t)
		key := rsaKey()
		from.publish("1", "RS256", key)
		from.broken = broken
		a, recorded := newAuth(t, Options{Issuer: from.URL, Audience: "b", Now: at.now})
		claims := jwt.MapClaims{"iss": from.URL, "aud": "b", "sub": "ann", "exp": at.now().Add(time.Hour).Unix()}
		raw := sign(t, jwt.SigningMethodRS256, key, claims, map[string]any{"kid": "1"})
		for range 3 {
			_, err := a.Authenticate(request("Authorization: Bearer " + raw))
			if belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable || recorded.last() != "unavailable" {
				t.Errorf("%.20s: %v (%s)", broken, err, recorded.last())
			}
		}
		if _, fetched := from.asked(); fetched != 1 {
			t.Errorf("%.20s: keys were fetched %d times", broken, fetched)
		}
		from.mu.Lock()
		from.broken = ""
		from.mu.Unlock()
		at.pass(retryProvider)
		var err error
		for range 100 { // the library may still share the result of the last fetch, which failed
			if _, err = a.Authenticate(request("Authorization: Bearer " + raw)); err == nil {
				break
			}
			runtime.Gosched()
		}
		if err != nil {
			t.Errorf("%.20s: after the outage: %v", broken, err)
		}
	}
}

func TestOutageIsForTokensOnly(t *testing.T) {
	at, from := newClock(), newIssuer(t)
	key := rsaKey()
	from.publish("1", "RS256", key)
	from.set(true)
	a, recorded := newAuth(t, Options{Key: operatorKey, Issuer: from.URL, Audience: "b", Now: at.now})
	claims := jwt.MapClaims{"iss": from.URL, "aud": "b", "sub": "ann", "exp": at.now().Add(time.Hour).Unix()}
	raw := sign(t, jwt.SigningMethodRS256, key, claims, map[string]any{"kid": "1"})
	try := func(headers ...string) belljar.Code {
		_, err := a.Authenticate(request(headers...))
		return belljar.CodeOf(err)
	}
	for range 50 { // retries do not count as wrong credentials
		if got := try("Authorization: Bearer " + raw); got != belljar.CodeRuntimeUnavailable || recorded.last() != "unavailable" {
			t.Fatalf("token: %s (%s)", got, recorded.last())
		}
	}
	if got := try("X-API-KEY: " + operatorKey); got != "" {
		t.Errorf("key: %s", got)
	}
	if discovered, _ := from.asked(); discovered != 1 {
		t.Errorf("a provider that is down was asked %d times", discovered)
	}
	from.set(false)
	at.pass(retryProvider)
	if got := try("Authorization: Bearer " + raw); got != "" {
		t.Errorf("token after the outage: %s", got)
	}
	// With known keys the provider may be down.
	from.set(true)
	at.pass(time.Minute)
	if got := try("Authorization: Bearer " + raw); got != "" {
		t.Errorf("token with known keys: %s", got)
	}
	unknown := sign(t, jwt.SigningMethodRS256, strangersKey(), claims, map[string]any{"kid": "9"})
	_, before := from.asked()
	got := try("Authorization: Bearer " + unknown)
	for late := time.Now().Add(time.Minute); time.Now().Before(late); runtime.Gosched() {
		if _, after := from.asked(); after > before {
			break
		}
		got = try("Authorization: Bearer " + unknown) // the library returns its first fetch until that fetch's goroutine has ended
	}
	if got != belljar.CodeRuntimeUnavailable {
		t.Errorf("token of an unknown key while the provider is down: %s", got)
	}
	_, before = from.asked()
	if got := try("Authorization: Bearer " + unknown); got != belljar.CodeRuntimeUnavailable {
		t.Errorf("again: %s", got)
	}
	if _, after := from.asked(); after != before {
		t.Error("a provider that is down is asked again at once")
	}
}

// transport sends requests.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The pause after a failure begins when the request has failed: a provider that hangs must not be tried again
// immediately.
func TestProviderThatHangs(t *testing.T) {
	at, asked := newClock(), 0
	a, _ := newAuth(t, Options{Issuer: "https://id.example", Audience: "b", Now: at.now, Client: &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
		asked++
		at.pass(retryProvider)
		return nil, errors.New("no answer")
	})}})
	raw := sign(t, jwt.SigningMethodRS256, rsaKey(), jwt.MapClaims{"iss": "https://id.example", "aud": "b", "sub": "ann", "exp": at.now().Add(time.Hour).Unix()}, nil)
	try := func() {
		t.Helper()
		if _, err := a.Authenticate(request("Authorization: Bearer " + raw)); belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable {
			t.Error(err)
		}
	}
	try()
	try()
	if asked != 1 {
		t.Errorf("a provider that hangs was asked %d times at once", asked)
	}
	at.pass(retryProvider)
	if try(); asked != 2 {
		t.Errorf("after the pause it was asked %d times", asked)
	}
}

func TestProviderWithAnotherName(t *testing.T) {
	from := newIssuer(t)
	from.name = "https://other.example"
	key := rsaKey()
	from.publish("1", "RS256", key)
	at := newClock()
	a, _ := newAuth(t, Options{Issuer: from.URL, Audience: "b", Now: at.now})
	raw := sign(t, jwt.SigningMethodRS256, key, jwt.MapClaims{
		"iss": from.URL, "aud": "b", "sub": "ann", "exp": at.now().Add(time.Hour).Unix(),
	}, map[string]any{"kid": "1"})
	if _, err := a.Authenticate(request("Authorization: Bearer " + raw)); belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable {
		t.Errorf("a provider that says it is another one: %v", err)
	}
}

// A key that the provider has withdrawn is refused once the keys are stale, although no token needs a new one.
func TestWithdrawnKeyIsRefused(t *testing.T) {
	at, from := newClock(), newIssuer(t)
	from.publish("1", "RS256", rsaKey())
	var text strings.Builder
	a, recorded := newAuth(t, Options{Issuer: from.URL, Audience: "b", Now: at.now, Logger: slog.New(slog.NewTextHandler(&text, nil))})
	claims := jwt.MapClaims{"iss": from.URL, "aud": "b", "sub": "ann", "exp": at.now().Add(5 * time.Hour).Unix()}
	withdrawn := sign(t, jwt.SigningMethodRS256, rsaKey(), claims, map[string]any{"kid": "1"})
	next := sign(t, jwt.SigningMethodRS256, strangersKey(), claims, map[string]any{"kid": "2"})
	// try sends a token until the reason is the wanted one: the library returns a fetch until that fetch's goroutine has ended.
	try := func(what, token, reason string) {
		t.Helper()
		var got string
		for late := time.Now().Add(time.Minute); time.Now().Before(late); runtime.Gosched() {
			recorded.list = nil
			a.Authenticate(request("Authorization: Bearer " + token))
			if got = recorded.last(); got == reason {
				return
			}
		}
		t.Errorf("%s: %q, want %q", what, got, reason)
	}
	renew := func() {
		from.mu.Lock()
		from.keys = nil
		from.mu.Unlock()
		from.publish("2", "RS256", strangersKey())
	}
	try("the first key", withdrawn, "")
	renew()
	at.pass(staleKeys - time.Second)
	try("the first key, before the keys are stale", withdrawn, "")
	if _, fetched := from.asked(); fetched != 1 {
		t.Errorf("fresh keys were fetched %d times", fetched)
	}
	at.pass(time.Second)
	try("the withdrawn key", withdrawn, "invalid_token")
	try("the new key", next, "")

	// The provider is down: the keys in use are valid for an hour.
	from.set(true)
	at.pass(staleKeys)
	_, before := from.asked()
	for range 20 {
		try("stale keys of a provider that is down", next, "")
	}
	if _, fetched := from.asked(); fetched != before+1 {
		t.Errorf("a provider that is down was asked %d times", fetched-before)
	}
	if lines := strings.Count(text.String(), "cannot be renewed"); lines != 1 {
		t.Errorf("%d log lines: %s", lines, text.String())
	}
	at.pass(lastKeys - staleKeys - time.Second)
	try("keys of almost an hour", next, "")
	at.pass(time.Second)
	try("keys of an hour", next, "unavailable")
	from.set(false)
	at.pass(retryProvider)
	try("after the outage", next, "")

	// What the provider answers is damaged: that renews nothing.
	from.mu.Lock()
	from.broken = `{"keys":[{"kty":"RSA","kid":3}]}`
	from.mu.Unlock()
	at.pass(lastKeys)
	try("keys of an hour, and damaged ones", next, "unavailable")
	at.pass(time.Second)
	for range 3 {
		recorded.list = nil
		a.Authenticate(request("Authorization: Bearer " + next))
		if got := recorded.last(); got != "unavailable" {
			t.Errorf("keys of an hour, after damaged ones: %q", got)
		}
	}
}

// An outage is logged once, not for each token.
func TestOutageIsLoggedOnce(t *testing.T) {
	for _, known := range []bool{false, true} {
		at, from := newClock(), newIssuer(t)
		from.publish("1", "RS256", rsaKey())
		var text strings.Builder
		a, recorded := newAuth(t, Options{Issuer: from.URL, Audience: "b", Now: at.now, Logger: slog.New(slog.NewTextHandler(&text, nil))})
		claims := jwt.MapClaims{"iss": from.URL, "aud": "b", "sub": "ann", "exp": at.now().Add(5 * time.Hour).Unix()}
		if known { // then only the keys cannot be fetched
			a.Authenticate(request("Authorization: Bearer " + sign(t, jwt.SigningMethodRS256, rsaKey(), claims, map[string]any{"kid": "1"})))
			at.pass(freshKeys)
		}
		from.set(true)
		raw := sign(t, jwt.SigningMethodRS256, rsaKey(), claims, map[string]any{"kid": "2"})
		for minute := range 2 {
			for range 20 {
				recorded.list = nil
				for late := time.Now().Add(time.Minute); recorded.last() != "unavailable" && time.Now().Before(late); runtime.Gosched() {
					a.Authenticate(request("Authorization: Bearer " + raw))
				}
			}
			if lines := strings.Count(text.String(), "level=ERROR"); lines != minute+1 {
				t.Errorf("known %t, minute %d: %d log lines: %s", known, minute, lines, text.String())
			}
			at.pass(time.Minute)
		}
	}
}
