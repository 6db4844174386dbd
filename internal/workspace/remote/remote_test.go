//go:build linux

package remote_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/rest"
	"github.com/belljar/belljar/internal/upstream"
	"github.com/belljar/belljar/internal/workspace"
	"github.com/belljar/belljar/internal/workspace/remote"
	"github.com/belljar/belljar/test/apitest"
	"github.com/belljar/belljar/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

const key = "alice" // a key of [apitest.Callers]

// other is another belljar, with faults in front.
type other struct {
	*httptest.Server
	mu    sync.Mutex
	fault http.HandlerFunc
	ids   map[string]bool
	sent  []http.Header
	opens int // requests to open a session
}

func newOther(t *testing.T) *other {
	t.Helper()
	door, err := rest.New(rest.Options{Engine: apitest.NewWorld(t, nil).Service, Auth: apitest.Callers()})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	door.Register(mux)
	mux.HandleFunc("GET /workspace/healthz", func(w http.ResponseWriter, r *http.Request) { answer(w, `{"status":"ok"}`) })
	mux.HandleFunc("GET /workspace/__meta/version", func(w http.ResponseWriter, r *http.Request) {
		answer(w, `{"version":"`+workspace.APIVersion+`"}`)
	})
	o := &other{ids: map[string]bool{}}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		fault := o.fault
		o.ids[r.Header.Get("X-Request-Id")] = true
		o.sent = append(o.sent, r.Header.Clone())
		if strings.HasSuffix(r.URL.Path, "/sessions/open") {
			o.opens++
		}
		o.mu.Unlock()
		if fault != nil {
			fault(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { o.CloseClientConnections(); o.Server.Close() })
	return o
}

func (o *other) breaks(fault http.HandlerFunc) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fault = fault
}

func answer(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, body)
}

func (o *other) open(t *testing.T) *remote.Source {
	t.Helper()
	return o.openWith(t, &upstream.Breaker{Failures: 1 << 30})
}

func (o *other) openWith(t *testing.T, b *upstream.Breaker) *remote.Source {
	t.Helper()
	s, err := remote.New(remote.Options{URL: o.URL, Key: key, Image: "host", Guard: upstream.Options{Breaker: b}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func read(t *testing.T, w workspace.Workspace, path string) (string, error) {
	_, body, err := w.Engine.Files().Read(t.Context(), w.Session, path, 0, 0)
	if err != nil {
		return "", err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	return string(text), err
}

// Callers share only a key.
func TestCallers(t *testing.T) {
	o := newOther(t)
	s := o.open(t)
	if r := readiness(t, s); r != (workspace.Readiness{State: "ready", Circuit: "closed"}) {
		t.Errorf("%+v", r)
	}
	ann, bob := belljar.Caller{ID: "ann", RequestID: "request-of-ann"}, belljar.Caller{ID: "bob", Role: belljar.RoleAdmin}
	mine, err := s.Open(t.Context(), ann, "")
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Open(t.Context(), ann, "")
	if err != nil || again.Session != mine.Session {
		t.Errorf("%s and %s, %v", mine.Session, again.Session, err)
	}
	if named, err := s.Open(t.Context(), ann, mine.Session); err != nil || named.Session != mine.Session {
		t.Errorf("%v", err)
	}
	his, err := s.Open(t.Context(), bob, "")
	if err != nil || his.Session == mine.Session || o.opens != 2 { // one for each caller
		t.Errorf("%v, opened %d times", err, o.opens)
	}
	if _, err := s.Open(t.Context(), bob, mine.Session); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("another's session: %v", err)
	}
	if _, err := mine.Engine.Files().Write(t.Context(), mine.Session, belljar.FileWrite{Path: "a", Content: strings.NewReader("mine"), Size: 4}); err != nil {
		t.Fatal(err)
	}
	if got, err := read(t, again, "a"); got != "mine" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := read(t, his, "a"); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("%v", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ids["request-of-ann"] {
		t.Error("requests have another id than the caller's")
	}
	for _, h := range o.sent {
		if h.Get("Authorization") != "Bearer "+key {
			t.Errorf("%v", h)
		}
	}
}

// Error responses of another belljar that are not its own errors do not reach a browser.
func TestFaults(t *testing.T) {
	o := newOther(t)
	s := o.open(t)
	w, err := s.Open(t.Context(), belljar.Caller{ID: "ann"}, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, fault := range map[string]http.HandlerFunc{
		"unauthorized": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(401)
			answer(w, `{"error":{"code":"unauthorized","message":"the key `+key+` is unknown"}}`)
		},
		"its key": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(404)
			answer(w, `{"error":{"code":"not_found","message":"no `+key+`"}}`)
		},
		"a page": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(404); io.WriteString(w, "<html>secret") },
		"no code": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(409)
			answer(w, `{"error":{"code":"secret","message":"secret"}}`)
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/secret", http.StatusFound)
		},
		"500":     func(w http.ResponseWriter, r *http.Request) { http.Error(w, "secret", 500) },
		"503":     func(w http.ResponseWriter, r *http.Request) { http.Error(w, "secret", http.StatusServiceUnavailable) },
		"hang up": func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			o.breaks(fault)
			defer o.breaks(nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			// A write that may have succeeded is sent only once.
			_, err := w.Engine.Files().Write(ctx, w.Session, belljar.FileWrite{Path: "a", Content: strings.NewReader("x"), Size: 1, Overwrite: true})
			var e *belljar.Error
			if !errors.As(err, &e) || e.Code != belljar.CodeRuntimeUnavailable {
				t.Errorf("%v", err)
			}
			for _, secret := range []string{key, "secret", "127.0.0.1", "169.254"} {
				if e != nil && strings.Contains(e.Message+e.Hint, secret) {
					t.Errorf("the error tells %q: %s %s", secret, e.Message, e.Hint)
				}
			}
		})
	}
	if _, err := read(t, w, "missing"); belljar.CodeOf(err) != belljar.CodeNotFound {
		t.Errorf("an answer that is one: %v", err)
	}
}

// An error about one session leaves the circuit closed for all others. A full workspace is the caller's to know.
func TestErrorsOfASession(t *testing.T) {
	o := newOther(t)
	for name, c := range map[string]struct {
		status int
		body   string
		want   belljar.Code
		opens  bool
	}{
		"disk full": {507, `{"error":{"code":"disk_full","message":"the workspace is full"}}`, belljar.CodeDiskFull, false},
		"timeout":   {504, `{"error":{"code":"timeout","message":"it has so many files"}}`, belljar.CodeTimeout, false},
		"memory":    {503, `{"error":{"code":"runtime_unavailable","message":"no memory is left"}}`, belljar.CodeRuntimeUnavailable, false},
		"a proxy":   {503, `unavailable`, belljar.CodeRuntimeUnavailable, true},
	} {
		o.breaks(nil)
		b := &upstream.Breaker{Failures: 5, Rest: time.Hour}
		w, err := o.openWith(t, b).Open(t.Context(), belljar.Caller{ID: "ann"}, "")
		if err != nil {
			t.Fatal(err)
		}
		var asked atomic.Int32
		o.breaks(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
		})
		for range 6 {
			_, err = w.Engine.Files().Write(t.Context(), w.Session, belljar.FileWrite{Path: "a", Content: strings.NewReader("x"), Size: 1, Overwrite: true})
			if belljar.CodeOf(err) != c.want {
				t.Errorf("%s: %v", name, err)
			}
		}
		if open := b.State() != upstream.Closed; open != c.opens || asked.Load() != map[bool]int32{true: 5, false: 6}[open] {
			t.Errorf("%s: %s after %d requests", name, b.State(), asked.Load())
		}
	}
}

// readiness polls until the check has its answer: on a machine that is not busy, the first call has it in
// time.
func readiness(t *testing.T, s *remote.Source) workspace.Readiness {
	for {
		if r := s.Ready(t.Context()); r.State != "degraded" {
			return r
		}
	}
}

func TestReady(t *testing.T) {
	o := newOther(t)
	for name, c := range map[string]struct {
		fault http.HandlerFunc
		want  workspace.Readiness
	}{
		"auth":    {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401) }, workspace.Readiness{State: "down", Circuit: "closed", Reason: "auth"}},
		"path":    {func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, workspace.Readiness{State: "down", Circuit: "closed", Reason: "bad_path"}},
		"version": {func(w http.ResponseWriter, r *http.Request) { answer(w, `{"version":"7.0.0"}`) }, workspace.Readiness{State: "down", Circuit: "closed", Reason: "version_mismatch"}},
		"down":    {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(502) }, workspace.Readiness{State: "down", Circuit: "closed", Reason: "unreachable"}},
	} {
		o.breaks(c.fault)
		if got := readiness(t, o.open(t)); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, err := remote.New(remote.Options{URL: "http://user:pass@host", Key: key}); err == nil {
		t.Error("an address with a user is accepted")
	}
}
