//go:build linux

package auth_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/auth"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service"
)

const (
	login      = api.Prefix + "/login"
	operator   = "operator-key-0123456789"
	jwtSecret  = "0123456789abcdef0123456789abcdef"
	sealSecret = "fedcba9876543210fedcba9876543210"
)

func TestSignIn(t *testing.T) {
	w := newWorld(t)
	key, _ := w.key("ann", 0)
	for name, tt := range map[string]struct{ credential, user, role string }{
		"an API key":         {key, "ann", "user"},
		"the operator's key": {operator, "operator", "admin"},
		"a JWT":              {w.jwt(jwtSecret, 24*time.Hour, nil), "jim", "user"},
		"an operator's JWT":  {w.jwt(jwtSecret, 24*time.Hour, jwt.MapClaims{"role": "admin", "sub": "eve"}), "eve", "admin"},
	} {
		token, answer := w.signIn("key", tt.credential)
		if answer["user_id"] != tt.user || answer["role"] != tt.role || answer["expires_at"] != w.Now().Add(12*time.Hour).UTC().Format(time.RFC3339) {
			t.Errorf("%s: %v", name, answer)
		}
		status, who := w.ask("GET", "/who", token, "")
		if status != http.StatusOK || who["user_id"] != tt.user || who["role"] != tt.role {
			t.Errorf("%s: the token is of %v", name, who)
		}
		// A sign-in cannot create another sign-in.
		if status, answer := w.ask("POST", login, "", `{"key":"`+token+`"}`); status != http.StatusForbidden {
			t.Errorf("%s: a second sign-in: %d %v", name, status, answer)
		}
		if status, answer := w.ask("POST", login+"/codes", token, ""); status != http.StatusForbidden {
			t.Errorf("%s: a code: %d %v", name, status, answer)
		}
		status, made := w.ask("POST", login+"/codes", tt.credential, "")
		code, _ := made["code"].(string)
		if status != http.StatusOK || len(code) != 22 || made["url"] != "https://x.example/jar/webui/#k="+code || made["expires_at"] != w.Now().Add(5*time.Minute).UTC().Format(time.RFC3339) {
			t.Fatalf("%s: %d %v", name, status, made)
		}
		second, _ := w.signIn("code", code)
		w.wantUser(second, tt.user)
		w.wantUser(code, "")
		// Signing out ends one sign-in.
		if status, answer := w.ask("DELETE", login, token, ""); status != http.StatusNoContent {
			t.Errorf("%s: sign out: %d %v", name, status, answer)
		}
		w.wantUser(token, "")
		w.wantUser(second, tt.user)
		w.wantUser(tt.credential, tt.user)
		if status, _ := w.ask("DELETE", login, token, ""); status != http.StatusUnauthorized {
			t.Errorf("%s: sign out again: %d", name, status)
		}
		if status, answer := w.ask("DELETE", login, tt.credential, ""); status != http.StatusBadRequest {
			t.Errorf("%s: sign out without a sign-in: %d %v", name, status, answer)
		}
		w.wantUser(tt.credential, tt.user)
	}
	var names []string
	for _, e := range w.events {
		if strings.HasPrefix(e.Name, "sandbox.login.") && e.Caller.ID == "ann" {
			names = append(names, e.Name)
			if e.Detail["token_id"] == "" || e.Caller.Address != "192.0.2.1" || len(e.Detail) != 1 {
				t.Errorf("%s: %+v", e.Name, e)
			}
		}
	}
	if want := []string{event.SignedIn, event.SignInCode, event.SignedIn, event.SignedOut}; !slices.Equal(names, want) {
		t.Errorf("recorded %v", names)
	}
}

// A code works once, even if it is stolen, used by many clients concurrently, or sent as a credential.
func TestCodes(t *testing.T) {
	w := newWorld(t)
	code := func() string {
		t.Helper()
		made, err := w.auth.OperatorCode(t.Context())
		if err != nil || len(made) != 22 {
			t.Fatalf("%q, %v", made, err)
		}
		return made
	}
	refused := func(what, code string) {
		t.Helper()
		if status, answer := w.ask("POST", login, "", `{"code":"`+code+`"}`); status != http.StatusUnauthorized || answer["code"] != "unauthorized" || answer["token"] != nil {
			t.Errorf("%s: %d %v", what, status, answer)
		}
	}
	used := code()
	token, _ := w.signIn("code", used)
	w.wantUser(token, "operator")
	refused("replayed", used)
	whole := code()
	if status, _ := w.ask("POST", login+"?code=", "", `{"code":"`+whole+`"}`); status != http.StatusBadRequest {
		t.Errorf("with an unknown parameter: %d", status)
	}
	w.signIn("code", whole)
	late := code()
	w.pass(5 * time.Minute)
	refused("expired", late)
	w.wantUser(token, "operator")

	many := code()
	var won atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			r := httptest.NewRequest("POST", login, strings.NewReader(`{"code":"`+many+`"}`))
			rw := httptest.NewRecorder()
			if w.handler.ServeHTTP(rw, r); rw.Code == http.StatusOK {
				won.Add(1)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d used one code", won.Load())
	}
	// Other credentials are not codes, and stay valid after they are tried as one.
	key, _ := w.key("ann", 0)
	for what, credential := range map[string]string{"a key": key, "a sign-in": token, "the operator's key": operator} {
		refused(what+" as a code", credential)
	}
	w.wantUser(key, "ann")
	w.wantUser(token, "operator")
	w.wantUser(operator, "operator")

	for body, want := range map[string]int{
		``: 400, `{}`: 400, `{"code":"","key":""}`: 400, `{"code":"a","key":"b"}`: 400, `{"code":1}`: 400, `{"kode":"a"}`: 400, `[]`: 400, `{"key":" "}`: 400,
		`{"code":"` + strings.Repeat("a", 20<<10) + `"}`: 413, `{"key":"\n"}`: 400,
	} {
		if status, answer := w.ask("POST", login, "", body); status != want {
			t.Errorf("%.40s: %d %v", body, status, answer)
		}
	}
	if status, answer := w.ask("POST", login+"?code=x", "", `{"code":"x"}`); status == http.StatusOK {
		t.Errorf("code in the query: %v", answer)
	}
}

// A sign-in ends after 12 hours, and with the credential that it was made with.
func TestSignInEnds(t *testing.T) {
	w := newWorld(t)
	old, _ := w.signIn("key", operator)
	w.pass(12*time.Hour - time.Second)
	w.wantUser(old, "operator")
	w.pass(time.Second)
	w.wantUser(old, "")

	key, id := w.key("ann", 0)
	made, _ := w.signIn("key", key)
	_, code := w.ask("POST", login+"/codes", key, "")
	if err := w.service.As(service.Local()).Admin().RevokeToken(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.wantUser(made, "")
	if status, _ := w.ask("POST", login, "", `{"code":"`+code["code"].(string)+`"}`); status != http.StatusUnauthorized {
		t.Errorf("the code of a revoked key: %d", status)
	}

	short, _ := w.key("bob", 60)
	made, answer := w.signIn("key", short)
	if want := w.Now().Add(time.Minute).UTC().Format(time.RFC3339); answer["expires_at"] != want {
		t.Errorf("%v outlives its key, which ends at %s", answer, want)
	}
	w.pass(time.Minute)
	w.wantUser(made, "")

	made, answer = w.signIn("key", w.jwt(jwtSecret, time.Minute, nil))
	if want := w.Now().Add(time.Minute).UTC().Format(time.RFC3339); answer["expires_at"] != want {
		t.Errorf("%v outlives its JWT, which ends at %s", answer, want)
	}
	w.wantUser(made, "jim")
	w.pass(time.Minute)
	w.wantUser(made, "")

	// An operator sees sign-ins among the keys, and revokes them.
	made, _ = w.signIn("key", operator)
	list, err := w.service.As(service.Local()).Admin().Tokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(list, func(k belljar.Token) bool { return k.Prefix == "u1." && k.RevokedAt == nil })
	if at < 0 || slices.ContainsFunc(list, func(k belljar.Token) bool { return k.Prefix == "code" }) {
		t.Fatalf("%+v", list)
	}
	if err := w.service.As(service.Local()).Admin().RevokeToken(t.Context(), list[at].ID); err != nil {
		t.Fatal(err)
	}
	w.wantUser(made, "")
}

func TestForgedSignIn(t *testing.T) {
	w := newWorld(t)
	token, _ := w.signIn("key", operator)
	head, seal, _ := strings.Cut(strings.TrimPrefix(token, "u1."), ".")
	others := api.NewSealer([]byte(strings.Repeat("x", 32)), "u1.", "sign-in")
	foreign, err := others.Seal(map[string]string{"i": "x"})
	if err != nil {
		t.Fatal(err)
	}
	for name, forged := range map[string]string{
		"shorter": token[:len(token)-1], "longer": token + "A", "another seal": "u1." + head + "." + strings.Repeat("A", len(seal)), "no seal": "u1." + head,
		"another id": "u1." + head[:len(head)-4] + "AAAA." + seal, "a ticket": "t1." + head + "." + seal, "of another server": foreign, "empty": "u1.", "nothing": "u1..",
	} {
		if status, answer := w.ask("GET", "/who", forged, ""); status != http.StatusUnauthorized {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
	// The token goes into a header: not into the query, nor a cookie.
	if status, _ := w.ask("GET", "/who?token="+token, "", ""); status != http.StatusUnauthorized {
		t.Errorf("in the query: %d", status)
	}
	w.wantUser(token, "operator")
}

// Wrong codes and keys are limited together, by address.
func TestSignInLimit(t *testing.T) {
	w := newWorld(t)
	token, _ := w.signIn("key", operator)
	for i := range 30 {
		body := `{"code":"wrong"}`
		if i%2 == 0 {
			body = `{"key":"wrong"}`
		}
		if status, _ := w.ask("POST", login, "", body); status != http.StatusUnauthorized {
			t.Fatalf("attempt %d: %d", i, status)
		}
	}
	for _, body := range []string{`{"code":"wrong"}`, `{"key":"wrong"}`} {
		if status, answer := w.ask("POST", login, "", body); status != http.StatusTooManyRequests {
			t.Errorf("%s: %d %v", body, status, answer)
		}
	}
	w.wantUser(token, "operator") // a client known from before is not locked out
	if status, _ := w.from("192.0.2.77:1", "POST", login, "", `{"key":"`+operator+`"}`); status != http.StatusOK {
		t.Errorf("from another address: %d", status)
	}
	w.pass(time.Minute)
	w.signIn("key", operator)
	failed := 0
	for _, e := range w.events {
		if e.Name == event.AuthFailed && e.Reason == "wrong_code" {
			failed++
		}
	}
	if failed != 15 {
		t.Errorf("%d wrong codes on record", failed)
	}
}

// Tokens survive a restart, and codes stay spent. With another key or secret, the old tokens end.
func TestSignInRestart(t *testing.T) {
	w := newWorld(t)
	key, _ := w.key("ann", 0)
	ann, _ := w.signIn("key", key)
	root, _ := w.signIn("key", operator)
	jim, _ := w.signIn("key", w.jwt(jwtSecret, time.Hour, nil))
	ended, _ := w.signIn("key", key)
	w.ask("DELETE", login, ended, "")
	spent, err := w.auth.OperatorCode(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.signIn("code", spent)
	unspent, err := w.auth.OperatorCode(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	w.restart(auth.Options{})
	w.wantUser(ann, "ann")
	w.wantUser(root, "operator")
	w.wantUser(jim, "jim")
	w.wantUser(ended, "")
	if status, _ := w.ask("POST", login, "", `{"code":"`+spent+`"}`); status != http.StatusUnauthorized {
		t.Errorf("a spent code: %d", status)
	}
	w.signIn("code", unspent)

	w.restart(auth.Options{Key: "another-operator-key"})
	w.wantUser(root, "")
	w.wantUser(ann, "ann")
	w.wantUser(jim, "jim")
	w.restart(auth.Options{JWTSecret: []byte(strings.Repeat("y", 32))})
	w.wantUser(root, "operator")
	w.wantUser(jim, "")
	w.wantUser(ann, "ann")
}

// Sign-ins of one user are limited; those of other users do not count.
func TestManySignIns(t *testing.T) {
	w := newWorld(t)
	key, _ := w.key("ann", 0)
	for range 256 {
		w.signIn("key", key)
	}
	if status, answer := w.ask("POST", login, "", `{"key":"`+key+`"}`); status != http.StatusTooManyRequests || answer["code"] != "quota_exceeded" {
		t.Errorf("%d %v", status, answer)
	}
	w.signIn("key", operator)
	w.pass(12 * time.Hour)
	w.signIn("key", key)
}
