//go:build linux

package auth_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
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
	blobs "github.com/belljar/belljar/internal/blob/dir"
	"github.com/belljar/belljar/internal/event"
	logbook "github.com/belljar/belljar/internal/logbook/memory"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store/sqlite"
)

const (
	login      = api.Prefix + "/login"
	operator   = "operator-key-0123456789"
	jwtSecret  = "0123456789abcdef0123456789abcdef"
	sealSecret = "fedcba9876543210fedcba9876543210"
)

// world is a server's sign-ins over a store on disk, with a clock of its own.
type world struct {
	t       *testing.T
	path    string
	now     atomic.Int64 // ns since the epoch
	auth    *auth.Authenticator
	service *service.Service
	handler http.Handler
	stop    func()
	uses    api.Uses
	held    chan context.Context // of requests that last until their contexts end

	mu     sync.Mutex
	events []event.Event
}

func (w *world) Now() time.Time { return time.Unix(0, w.now.Load()) }

func (w *world) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

func (w *world) pass(d time.Duration) { w.now.Add(int64(d)) }

func (w *world) Record(e event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, held: make(chan context.Context, 8), path: filepath.Join(t.TempDir(), "store.db")}
	w.now.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixNano())
	w.start(auth.Options{})
	t.Cleanup(func() { w.stop() })
	return w
}

// start starts a server, with changes to its configuration.
func (w *world) start(o auth.Options) {
	w.t.Helper()
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	records, err := sqlite.Open(w.t.Context(), sqlite.Options{Path: w.path})
	must(err)
	kept, err := blobs.Open(blobs.Options{Path: w.t.TempDir()})
	must(err)
	rt := fake.New(fake.Options{Dir: w.t.TempDir()})
	w.service, err = service.New(service.Options{
		Runtimes: []runtime.Runtime{rt}, Store: records, Logs: logbook.New(), Blobs: kept, Require: []string{}, Clock: w, Events: w,
		Revoked: w.uses.End,
	})
	must(err)
	w.stop = func() {
		must(w.service.Close())
		must(rt.Close())
		must(kept.Close())
		must(records.Close())
	}
	o.SignIns, o.Keys, o.Secret, o.Now, o.Events = w.service.SignIns(), w.service.Authenticate, []byte(sealSecret), w.Now, w
	if o.Key == "" {
		o.Key = operator
	}
	if o.JWTSecret == nil {
		o.JWTSecret = []byte(jwtSecret)
	}
	edge, err := api.NewEdge(api.EdgeOptions{PublicURL: "https://x.example/jar"})
	must(err)
	o.PageURL = func(r *http.Request, path string) string { return edge.URL(r, "/webui/"+path) }
	o.Uses = &w.uses
	w.auth, err = auth.New(o)
	must(err)
	mux := http.NewServeMux()
	w.auth.Register(mux, w.auth)
	mux.Handle("GET /who", api.Guard(w.auth, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		c := api.CallerOf(r.Context())
		_ = json.NewEncoder(rw).Encode(map[string]any{"user_id": c.ID, "role": c.Role})
	})))
	mux.Handle("GET /hold", api.Guard(w.auth, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		w.held <- r.Context()
		<-r.Context().Done()
	})))
	w.handler = edge.Wrap(mux)
}

func (w *world) restart(o auth.Options) {
	w.t.Helper()
	w.stop()
	w.start(o)
}

// ask sends a request with a credential, and returns the status and the answer, or its error.
func (w *world) ask(method, path, credential, body string) (int, map[string]any) {
	w.t.Helper()
	return w.from("192.0.2.1:1", method, path, credential, body)
}

func (w *world) from(address, method, path, credential, body string) (int, map[string]any) {
	w.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr = address
	r.Header.Set("Content-Type", "application/json")
	if credential != "" {
		r.Header.Set("Authorization", "Bearer "+credential)
	}
	rw := httptest.NewRecorder()
	w.handler.ServeHTTP(rw, r)
	var answer map[string]any
	_ = json.Unmarshal(rw.Body.Bytes(), &answer) // a 204 has none
	if e, ok := answer["error"].(map[string]any); ok {
		answer = e
	}
	if rw.Code == http.StatusOK && rw.Header().Get("Cache-Control") != "no-store" && strings.HasPrefix(path, login) {
		w.t.Errorf("%s may be cached", path)
	}
	return rw.Code, answer
}

// signIn signs in and returns the token.
func (w *world) signIn(field, value string) (token string, answer map[string]any) {
	w.t.Helper()
	status, answer := w.ask("POST", login, "", `{"`+field+`":"`+value+`"}`)
	token, _ = answer["token"].(string)
	if status != http.StatusOK || !strings.HasPrefix(token, "u1.") {
		w.t.Fatalf("sign-in: %d %v", status, answer)
	}
	return token, answer
}

// wantUser checks the user of a credential; "" means that it is refused.
func (w *world) wantUser(credential, user string) {
	w.t.Helper()
	status, answer := w.ask("GET", "/who", credential, "")
	switch {
	case user == "" && (status != http.StatusUnauthorized || answer["code"] != "unauthorized"):
		w.t.Errorf("it is valid: %d %v", status, answer)
	case user != "" && (status != http.StatusOK || answer["user_id"] != user):
		w.t.Errorf("%d %v, want %s", status, answer, user)
	}
}

func (w *world) key(user string, ttl float64) (key, id string) {
	w.t.Helper()
	made, err := w.service.As(service.Local()).Admin().CreateToken(w.t.Context(), belljar.TokenSpec{UserID: user, TTLSec: ttl})
	if err != nil {
		w.t.Fatal(err)
	}
	return made.Secret, made.ID
}

func (w *world) jwt(secret string, life time.Duration, more jwt.MapClaims) string {
	w.t.Helper()
	claims := jwt.MapClaims{"sub": "jim", "exp": w.Now().Add(life).Unix()}
	for name, value := range more {
		claims[name] = value
	}
	raw, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
	if err != nil {
		w.t.Fatal(err)
	}
	return raw
}

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
		// A sign-in makes no other one.
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

// A code works once, also if it is stolen, tried at once by many, or as a credential.
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
	// Other credentials are no codes, and stay valid if they are tried as one.
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
	w.wantUser(token, "operator") // who was known before is not locked out
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

// Tokens survive a restart, and codes stay spent. With another key or secret, what the old one made ends.
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

// Sign-ins of one user are bounded; those of others do not count.
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
