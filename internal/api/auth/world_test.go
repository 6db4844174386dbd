//go:build linux

package auth_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
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
	"github.com/belljar/belljar/internal/store/memory"
)

// world is a server's sign-ins over a store that outlives it, with a clock of its own. The suite of stores checks that a store on disk
// behaves the same: SQLite with the race detector takes minutes to compile.
type world struct {
	t       *testing.T
	records *memory.Store
	now     atomic.Int64 // ns since the epoch
	auth    *auth.Authenticator
	service *service.Service
	handler http.Handler
	stop    func()
	uses    api.Uses
	held    chan context.Context // of requests that last until their contexts end

	mu     sync.Mutex
	events []event.Event
	timers map[*time.Timer]time.Time
}

func (w *world) Now() time.Time { return time.Unix(0, w.now.Load()) }

func (w *world) AfterFunc(d time.Duration, f func()) func() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	timer := time.AfterFunc(d, f)
	w.timers[timer] = w.Now().Add(d)
	return timer.Stop
}

// pass moves the clock, and fires the timers that are due then.
func (w *world) pass(d time.Duration) {
	w.now.Add(int64(d))
	w.mu.Lock()
	defer w.mu.Unlock()
	for timer, at := range w.timers {
		if !w.Now().Before(at) && timer.Stop() {
			timer.Reset(0)
		}
	}
}

func (w *world) Record(e event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, held: make(chan context.Context, 8), records: memory.New(), timers: map[*time.Timer]time.Time{}}
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
	kept, err := blobs.Open(blobs.Options{Path: w.t.TempDir()})
	must(err)
	rt := fake.New(fake.Options{Dir: w.t.TempDir()})
	w.service, err = service.New(service.Options{
		Runtimes: []runtime.Runtime{rt}, Store: w.records, Logs: logbook.New(), Blobs: kept, Require: []string{}, Clock: w, Events: w,
		Revoked: w.uses.End,
	})
	must(err)
	w.stop = func() {
		must(w.service.Close())
		must(rt.Close())
		must(kept.Close())
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

// wantUser checks the user of a credential; "" means that it must be refused.
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
	maps.Copy(claims, more)
	raw, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
	if err != nil {
		w.t.Fatal(err)
	}
	return raw
}
