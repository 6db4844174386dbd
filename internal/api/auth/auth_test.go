package auth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

const (
	operatorKey = "operator-key-0123456789"
	secret      = "0123456789abcdef0123456789abcdef"
)

// reasons records the reasons of failures.
type reasons struct {
	mu   sync.Mutex
	list []string
}

func (s *reasons) Record(e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Name == event.AuthFailed {
		s.list = append(s.list, e.Reason)
	}
}

func (s *reasons) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return ""
	}
	return s.list[len(s.list)-1]
}

type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func newAuth(t *testing.T, opts Options) (*Authenticator, *reasons) {
	t.Helper()
	recorded := &reasons{}
	opts.Events = recorded
	if opts.Now == nil {
		opts.Now = newClock().now
	}
	if opts.Client == nil {
		opts.Client = &http.Client{Timeout: time.Minute} // the test's provider always answers
	}
	a, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return a, recorded
}

// request returns a request with headers "Name: value".
func request(headers ...string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// from returns a request from an address, as set by the edge.
func from(address string, r *http.Request) *http.Request {
	return r.WithContext(api.WithCaller(r.Context(), belljar.Caller{Address: address}))
}

func keys(ctx context.Context, key string) (belljar.Caller, error) {
	switch key {
	case "blj_ann":
		return belljar.Caller{ID: "ann", Role: belljar.RoleUser}, nil
	case "blj_server":
		return belljar.Caller{ID: "server", Role: belljar.RoleUser}, nil
	case "blj_broken":
		return belljar.Caller{}, errors.New("store is down")
	case "blj_nobody":
		return belljar.Caller{}, nil
	}
	return belljar.Caller{}, &belljar.Error{Code: belljar.CodeUnauthorized, Message: "revoked on Tuesday"}
}

func sign(t *testing.T, method jwt.SigningMethod, key any, claims jwt.MapClaims, header map[string]any) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	maps.Copy(token.Header, header)
	raw, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestKeys(t *testing.T) {
	a, recorded := newAuth(t, Options{Key: operatorKey, Keys: keys, JWTSecret: []byte(secret), FailuresPerMin: 1000})
	for _, c := range []struct {
		name    string
		headers []string
		who     belljar.Caller
		code    belljar.Code
		reason  string
	}{
		{"operator by key header", []string{"X-API-KEY: " + operatorKey}, belljar.Caller{ID: "operator", Role: belljar.RoleAdmin}, "", ""},
		{"operator by bearer", []string{"Authorization: Bearer " + operatorKey}, belljar.Caller{ID: "operator", Role: belljar.RoleAdmin}, "", ""},
		{"scheme in small letters", []string{"Authorization: bearer blj_ann"}, belljar.Caller{ID: "ann", Role: belljar.RoleUser}, "", ""},
		{"user's key", []string{"X-Api-Key: blj_ann"}, belljar.Caller{ID: "ann", Role: belljar.RoleUser}, "", ""},
		{"both, the same", []string{"X-API-KEY: blj_ann", "Authorization: Bearer blj_ann"}, belljar.Caller{ID: "ann", Role: belljar.RoleUser}, "", ""},
		{"both, different", []string{"X-API-KEY: blj_ann", "Authorization: Bearer " + operatorKey}, belljar.Caller{}, belljar.CodeUnauthorized, "conflict"},
		{"twice", []string{"X-API-KEY: blj_ann", "X-API-KEY: blj_ann"}, belljar.Caller{}, belljar.CodeUnauthorized, "conflict"},
		{"bearer twice", []string{"Authorization: Bearer blj_ann", "Authorization: Bearer x"}, belljar.Caller{}, belljar.CodeUnauthorized, "conflict"},
		{"none", nil, belljar.Caller{}, belljar.CodeUnauthorized, "missing"},
		{"empty key", []string{"X-API-KEY: "}, belljar.Caller{}, belljar.CodeUnauthorized, "missing"},
		{"empty bearer", []string{"Authorization: Bearer "}, belljar.Caller{}, belljar.CodeUnauthorized, "malformed"},
		{"basic", []string{"Authorization: Basic b3BlcmF0b3I6eA=="}, belljar.Caller{}, belljar.CodeUnauthorized, "malformed"},
		{"key without scheme", []string{"Authorization: " + operatorKey}, belljar.Caller{}, belljar.CodeUnauthorized, "malformed"},
		{"unknown key", []string{"X-API-KEY: blj_zed"}, belljar.Caller{}, belljar.CodeUnauthorized, "unknown_key"},
		{"part of a key", []string{"X-API-KEY: " + operatorKey[:10]}, belljar.Caller{}, belljar.CodeUnauthorized, "unknown_key"},
		{"a huge key", []string{"X-API-KEY: " + strings.Repeat("k", maxCredential+1)}, belljar.Caller{}, belljar.CodeUnauthorized, "malformed"},
		{"key of the server's name", []string{"X-API-KEY: blj_server"}, belljar.Caller{}, belljar.CodeUnauthorized, "reserved_user"},
		{"store down", []string{"X-API-KEY: blj_broken"}, belljar.Caller{}, belljar.CodeInternal, ""},
		{"key of nobody", []string{"X-API-KEY: blj_nobody"}, belljar.Caller{}, belljar.CodeInternal, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			recorded.list = nil
			who, err := a.Authenticate(request(c.headers...))
			if who != c.who || belljar.CodeOf(err) != c.code || recorded.last() != c.reason {
				t.Errorf("%+v, %v (%s), want %+v, %s (%s)", who, err, recorded.last(), c.who, c.code, c.reason)
			}
			if err != nil && strings.Contains(err.Error(), "Tuesday") {
				t.Errorf("the answer says too much: %v", err)
			}
		})
	}
}

func TestDefaultRefusesAll(t *testing.T) {
	a, _ := newAuth(t, Options{})
	for _, h := range []string{"X-API-KEY: x", "Authorization: Bearer x", "X-API-KEY: "} {
		if _, err := a.Authenticate(request(h)); belljar.CodeOf(err) != belljar.CodeUnauthorized {
			t.Errorf("%q: %v", h, err)
		}
	}
}

func TestBadOptions(t *testing.T) {
	for _, opts := range []Options{{JWTSecret: []byte("short")}, {Issuer: "https://i.example"}, {Audience: "a"}} {
		if _, err := New(opts); err == nil {
			t.Errorf("%+v is accepted", opts)
		}
	}
}

func TestSharedSecretTokens(t *testing.T) {
	at := newClock()
	a, recorded := newAuth(t, Options{JWTSecret: []byte(secret), Now: at.now, FailuresPerMin: 1000})
	now := at.now()
	claims := func(more ...any) jwt.MapClaims {
		c := jwt.MapClaims{"sub": "ann", "exp": now.Add(time.Hour).Unix()}
		for i := 0; i < len(more); i += 2 {
			if more[i+1] == nil {
				delete(c, more[i].(string))
				continue
			}
			c[more[i].(string)] = more[i+1]
		}
		return c
	}
	hs := func(c jwt.MapClaims) string { return sign(t, jwt.SigningMethodHS256, []byte(secret), c, nil) }
	good := hs(claims())
	parts := strings.Split(good, ".")
	user, admin := belljar.Caller{ID: "ann", Role: belljar.RoleUser}, belljar.Caller{ID: "ann", Role: belljar.RoleAdmin}
	for _, c := range []struct {
		name   string
		token  string
		who    belljar.Caller
		reason string
	}{
		{"user", good, user, ""},
		{"role user", hs(claims("role", "user")), user, ""},
		{"role admin", hs(claims("role", "admin")), admin, ""},
		{"role sandbox_admin among words", hs(claims("role", "dev sandbox_admin")), admin, ""},
		{"roles", hs(claims("roles", []string{"dev", "admin"})), admin, ""},
		{"roles without", hs(claims("roles", []string{"administrator", "Admin"})), user, ""},
		{"is_admin", hs(claims("is_admin", true)), admin, ""},
		{"sandbox_admin", hs(claims("sandbox_admin", true)), admin, ""},
		{"IS_ADMIN", hs(claims("IS_ADMIN", true)), user, ""},
		{"another s in sub", hs(claims("\u017fub", "bob")), user, ""},
		{"is_admin in words", hs(claims("is_admin", "true")), user, ""},
		{"is_admin one", hs(claims("is_admin", 1)), user, ""},
		{"is_admin false", hs(claims("is_admin", false)), user, ""},
		{"not before, nearly", hs(claims("nbf", now.Add(20*time.Second).Unix())), user, ""},
		{"expired, just", hs(claims("exp", now.Add(-20*time.Second).Unix())), user, ""},

		{"expired", hs(claims("exp", now.Add(-time.Minute).Unix())), belljar.Caller{}, "expired_token"},
		{"no exp", hs(claims("exp", nil)), belljar.Caller{}, "invalid_token"},
		{"exp in words", hs(claims("exp", "tomorrow")), belljar.Caller{}, "invalid_token"},
		{"not before", hs(claims("nbf", now.Add(time.Minute).Unix())), belljar.Caller{}, "invalid_token"},
		{"made in the future", hs(claims("iat", now.Add(time.Hour).Unix())), belljar.Caller{}, "invalid_token"},
		{"no sub", hs(claims("sub", nil)), belljar.Caller{}, "invalid_token"},
		{"sub a number", hs(claims("sub", 7)), belljar.Caller{}, "invalid_token"},
		{"sub too long", hs(claims("sub", strings.Repeat("a", maxSubject+1))), belljar.Caller{}, "invalid_token"},
		{"sub with a newline", hs(claims("sub", "ann\nadmin")), belljar.Caller{}, "invalid_token"},
		{"the operator's name", hs(claims("sub", "operator")), belljar.Caller{}, "invalid_token"},
		{"the server's name", hs(claims("sub", "server")), belljar.Caller{}, "invalid_token"},
		{"the operator", hs(claims("sub", "operator", "is_admin", true)), belljar.Caller{ID: "operator", Role: belljar.RoleAdmin}, ""},
		{"role a number", hs(claims("role", 7)), belljar.Caller{}, "invalid_token"},
		{"other secret", sign(t, jwt.SigningMethodHS256, []byte("x"+secret[1:]), claims(), nil), belljar.Caller{}, "invalid_token"},
		{"expired, other secret", sign(t, jwt.SigningMethodHS256, []byte("x"+secret[1:]), claims("exp", 1), nil), belljar.Caller{}, "invalid_token"},
		{"HS512", sign(t, jwt.SigningMethodHS512, []byte(secret), claims(), nil), belljar.Caller{}, "invalid_token"},
		{"none", sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims("is_admin", true), nil), belljar.Caller{}, "invalid_token"},
		{"None", sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims(), map[string]any{"alg": "None"}), belljar.Caller{}, "invalid_token"},
		{"crit", sign(t, jwt.SigningMethodHS256, []byte(secret), claims(), map[string]any{"crit": []string{"b64"}}), belljar.Caller{}, "invalid_token"},
		{"says RS256", sign(t, jwt.SigningMethodHS256, []byte(secret), claims(), map[string]any{"alg": "RS256"}), belljar.Caller{}, "invalid_token"},
		{"no signature", parts[0] + "." + parts[1] + ".", belljar.Caller{}, "invalid_token"},
		{"other claims", parts[0] + "." + strings.Split(hs(claims("sub", "bob")), ".")[1] + "." + parts[2], belljar.Caller{}, "invalid_token"},
		{"padding", parts[0] + "=." + parts[1] + "." + parts[2], belljar.Caller{}, "invalid_token"},
		{"rubbish", "eyJ.eyJ.x", belljar.Caller{}, "invalid_token"},
		{"four parts", good + ".x", belljar.Caller{}, "unknown_key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			recorded.list = nil
			who, err := a.Authenticate(request("Authorization: Bearer " + c.token))
			if who != c.who || recorded.last() != c.reason || (err == nil) != (c.reason == "") {
				t.Errorf("%+v, %v (%s), want %+v (%s)", who, err, recorded.last(), c.who, c.reason)
			}
			if err != nil && belljar.CodeOf(err) != belljar.CodeUnauthorized {
				t.Errorf("code is %s", belljar.CodeOf(err))
			}
		})
	}
	for want, token := range map[string]string{
		"token is not valid: it has no exp": hs(claims("exp", nil)), "token is not valid: sub must have 1 to 256 bytes": hs(claims("sub", nil)),
		"credentials are not valid": sign(t, jwt.SigningMethodHS256, []byte("x"+secret[1:]), claims("exp", nil), nil),
	} {
		if _, err := a.Authenticate(request("Authorization: Bearer " + token)); belljar.CodeOf(err) != belljar.CodeUnauthorized || err.(*belljar.Error).Message != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := a.Authenticate(request("X-API-KEY: " + good)); err == nil {
		t.Error("a token is taken for a key")
	}
}

func TestGuessersAreSlowedDown(t *testing.T) {
	at := newClock()
	a, recorded := newAuth(t, Options{Key: operatorKey, Keys: keys, Now: at.now, FailuresPerMin: 3})
	try := func(address, key string) belljar.Code {
		_, err := a.Authenticate(from(address, request("X-API-KEY: "+key)))
		return belljar.CodeOf(err)
	}
	if got := try("192.0.2.1", "blj_ann"); got != "" {
		t.Fatal(got)
	}
	for i := range 3 {
		if got := try("192.0.2.1", fmt.Sprint("guess", i)); got != belljar.CodeUnauthorized {
			t.Fatalf("guess %d: %s", i, got)
		}
	}
	for name, c := range map[string]struct {
		address, key string
		want         belljar.Code
	}{
		"one guess more":                      {"192.0.2.1", "guess", belljar.CodeRateLimited},
		"the right key, guessed now":          {"192.0.2.1", operatorKey, belljar.CodeRateLimited},
		"what was right before":               {"192.0.2.1", "blj_ann", ""},
		"another address":                     {"192.0.2.2", operatorKey, ""},
		"another address that guesses":        {"192.0.2.2", "guess", belljar.CodeUnauthorized},
		"what was right, from somewhere else": {"192.0.2.3", "blj_ann", ""},
	} {
		if got := try(c.address, c.key); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	_, err := a.Authenticate(from("192.0.2.1", request("X-API-KEY: guess")))
	var e *belljar.Error
	if !errors.As(err, &e) || e.Details["retry_after_sec"] != 20 || recorded.last() != "rate_limited" {
		t.Errorf("%+v, %s", e, recorded.last())
	}
	at.pass(20 * time.Second)
	if got := try("192.0.2.1", operatorKey); got != "" {
		t.Errorf("after the wait: %s", got)
	}
	// A request without credentials is not a failure; an IPv6 network counts as one address.
	for range 10 {
		if _, err := a.Authenticate(from("192.0.2.9", request())); belljar.CodeOf(err) != belljar.CodeUnauthorized {
			t.Fatal(err)
		}
	}
	for i, want := range []belljar.Code{belljar.CodeUnauthorized, belljar.CodeUnauthorized, belljar.CodeUnauthorized, belljar.CodeRateLimited} {
		if got := try(fmt.Sprintf("2001:db8::%d", i+1), "guess"); got != want {
			t.Errorf("guess %d from the network: %s", i, got)
		}
	}
}

// An expired token with a valid signature is no guess: its user may have a client that repeats it.
func TestExpiredTokensAreNotGuesses(t *testing.T) {
	at := newClock()
	a, recorded := newAuth(t, Options{JWTSecret: []byte(secret), Now: at.now, FailuresPerMin: 3})
	token := func(expires time.Duration) *http.Request {
		claims := jwt.MapClaims{"sub": "ann", "exp": at.now().Add(expires).Unix()}
		return from("192.0.2.1", request("Authorization: Bearer "+sign(t, jwt.SigningMethodHS256, []byte(secret), claims, nil)))
	}
	for range 5 {
		if _, err := a.Authenticate(token(-time.Hour)); belljar.CodeOf(err) != belljar.CodeUnauthorized || recorded.last() != "expired_token" {
			t.Errorf("%v, %s", err, recorded.last())
		}
	}
	if _, err := a.Authenticate(token(time.Hour)); err != nil {
		t.Error(err)
	}
}

func TestKnownIsBounded(t *testing.T) {
	k := newKnown()
	for i := range maxKnown + 10 {
		k.add("a", fmt.Sprint(i))
	}
	if len(k.good) > maxKnown || !k.has("a", fmt.Sprint(maxKnown+9)) || k.has("b", fmt.Sprint(maxKnown+9)) {
		t.Errorf("%d remembered", len(k.good))
	}
}

func TestGuardChallenges(t *testing.T) {
	a, _ := newAuth(t, Options{Key: operatorKey})
	w := httptest.NewRecorder()
	api.Guard(a, http.NotFoundHandler()).ServeHTTP(w, request())
	if w.Code != 401 || w.Header().Get("WWW-Authenticate") == "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if diff := cmp.Diff(`{"error":{"code":"unauthorized","message":"credentials are missing","details":{},"hint":"send Authorization: Bearer <key or token>, or X-API-KEY: <key>"}}`+"\n", w.Body.String()); diff != "" {
		t.Error(diff)
	}
}

func FuzzToken(f *testing.F) {
	a, err := New(Options{JWTSecret: []byte(secret), Now: newClock().now, FailuresPerMin: 1 << 30})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if c, err := a.token(t.Context(), raw); err == nil {
			t.Errorf("%q is a token of %+v", raw, c)
		}
	})
}

func FuzzCredential(f *testing.F) {
	f.Fuzz(func(t *testing.T, authorization, key string) {
		h := http.Header{}
		if authorization != "" {
			h.Set("Authorization", authorization)
		}
		if key != "" {
			h.Set("X-API-KEY", key)
		}
		if c, err := credentialOf(h); (err == nil) != (c.text != "") || len(c.text) > maxCredential {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

func FuzzClaims(f *testing.F) {
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := callerOf(raw)
		if err == nil && (c.ID == "" || len(c.ID) > maxSubject || c.Role == "") {
			t.Errorf("%q gives %+v", raw, c)
		}
	})
}
