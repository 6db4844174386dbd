//go:build linux

package image_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
)

// TestTokens tests that credentials go to the token server only, over a plain connection only on this machine, and to no other host.
func TestTokens(t *testing.T) {
	layer := tarOf(t, "f", "secret")
	b := build(t, spec{layers: [][]byte{layer}})
	elsewhere := newHub(t) // the host that really has the blobs
	elsewhere.put("app:latest", b)
	elsewhere.meddleWith(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("%s was sent %q", r.URL.Path, r.Header.Get("Authorization"))
		}
		return false
	})
	h := newHub(t)
	h.put("app:latest", b)
	var anonymous atomic.Bool
	var self atomic.Pointer[string] // the hub's address
	h.meddleWith(func(w http.ResponseWriter, r *http.Request) bool {
		auth := r.Header.Get("Authorization")
		switch {
		case r.URL.Path == "/token":
			if anonymous.Store(auth == ""); r.URL.Query().Get("scope") != "repository:app:pull" {
				t.Errorf("scope %q", r.URL.Query().Get("scope"))
			}
			fmt.Fprint(w, `{"access_token":"open-sesame"}`)
		case auth != "Bearer open-sesame":
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+*self.Load()+`/token",service="hub"`)
			w.WriteHeader(401)
		case strings.Contains(r.URL.Path, "/blobs/"):
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
		default:
			return false
		}
		return true
	})
	here, far := h.host(), "registry.example:5000"
	for _, name := range []string{here, far} {
		self.Store(&name)
		o := image.Options{Keychain: password{}, Registries: []string{far}, Transport: leading(far, here)}
		pull(t, open(t, o, h, elsewhere), name+"/app")
		if anonymous.Load() != (name == far) {
			t.Errorf("%s was signed on to with no password: %v", name, anonymous.Load())
		}
	}
}

// TestPlainPassword tests that a private registry on this machine gets its password over a plain connection, and that one elsewhere
// does not. The error states why.
func TestPlainPassword(t *testing.T) {
	h := newHub(t)
	h.put("app:latest", build(t, spec{layers: [][]byte{tarOf(t, "f", "x")}}))
	var asked atomic.Int32
	h.meddleWith(func(w http.ResponseWriter, r *http.Request) bool {
		user, pass, sent := r.BasicAuth()
		if sent {
			asked.Add(1)
		}
		if user != "user" || pass != "hush" {
			w.Header().Set("WWW-Authenticate", `Basic realm="hub"`)
			w.WriteHeader(401)
			return true
		}
		return false
	})
	pull(t, open(t, image.Options{Keychain: password{}}, h), h.ref("app"))
	if asked.Load() == 0 {
		t.Error("no password was sent")
	}
	asked.Store(0)
	const far = "registry.example:5000"
	o := image.Options{Keychain: password{}, Registries: []string{far}, Transport: leading(far, h.host())}
	_, err := open(t, o).Pull(t.Context(), far+"/app", false, nil)
	wantError(t, err, belljar.CodeImageUnavailable, "no password is sent over a plain connection")
	if asked.Load() > 0 {
		t.Error("a password was sent over a plain connection")
	}
}

// leading returns a transport for which the name from resolves to the address to.
func leading(from, to string) http.RoundTripper {
	return &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == from {
			address = to
		}
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}}
}

// hanging is a keychain that does not answer until it is released.
type hanging struct {
	asked chan struct{}
	let   chan struct{}
}

func (h hanging) Resolve(authn.Resource) (authn.Authenticator, error) {
	h.asked <- struct{}{}
	<-h.let
	return authn.Anonymous, nil
}

// TestHangingKeychain tests a credential helper that hangs. A caller waits until its context ends, or the helper's time is over. The
// helper gets no other request before it answers. The store closes without it, and uses it again when it works.
func TestHangingKeychain(t *testing.T) {
	free, h := newHub(t), newHub(t)
	for _, hub := range []*hub{free, h} {
		hub.put("app:latest", build(t, spec{layers: [][]byte{tarOf(t, "f", "x")}}))
	}
	h.meddleWith(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v2/" {
			w.Header().Set("WWW-Authenticate", `Basic realm="hub"`)
			w.WriteHeader(401)
		}
		return r.URL.Path == "/v2/"
	})
	keys := hanging{make(chan struct{}, 8), make(chan struct{})}
	s := open(t, image.Options{Keychain: keys, KeychainTimeout: 50 * time.Millisecond}, free, h)
	pull(t, s, free.ref("app")) // needs no password
	_, err := s.Pull(t.Context(), h.ref("app"), false, nil)
	wantError(t, err, belljar.CodeImageUnavailable, "credentials for "+h.host(), "does not answer", "credHelpers")
	_, err = s.Pull(t.Context(), h.ref("app"), false, nil)
	wantError(t, err, belljar.CodeImageUnavailable, "does not answer")
	<-keys.asked // may take long on a busy machine
	if n := len(keys.asked); n != 0 {
		t.Errorf("it was asked %d times more", n)
	}
	patient := open(t, image.Options{Keychain: keys, KeychainTimeout: time.Hour}, h)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := patient.Pull(ctx, h.ref("app"), false, nil)
		done <- err
	}()
	<-keys.asked
	cancel()
	if err := <-done; err != context.Canceled {
		t.Errorf("%v, want the context's own error", err)
	}
	if err := patient.Close(); err != nil {
		t.Error(err)
	}
	close(keys.let)
	relaxed := open(t, image.Options{Keychain: keys}, h)
	pull(t, relaxed, h.ref("app"))
}

// password is a keychain with one password for every registry.
type password struct{}

func (password) Resolve(authn.Resource) (authn.Authenticator, error) {
	return &authn.Basic{Username: "user", Password: "hush"}, nil
}

// TestTLS tests that a password is used over TLS, and that a redirect that leaves TLS is not followed.
func TestTLS(t *testing.T) {
	plain := newHub(t)
	h := newHub(t)
	b := build(t, spec{layers: [][]byte{tarOf(t, "f", "x")}})
	h.put("app:latest", b)
	secure := httptest.NewTLSServer(h)
	t.Cleanup(secure.Close)
	h.meddleWith(func(w http.ResponseWriter, r *http.Request) bool {
		if user, pass, _ := r.BasicAuth(); user != "user" || pass != "hush" {
			w.Header().Set("WWW-Authenticate", `Basic realm="hub"`)
			w.WriteHeader(401)
			return true
		}
		return false
	})
	ref := strings.TrimPrefix(secure.URL, "https://") + "/app"
	o := image.Options{Keychain: password{}, Transport: secure.Client().Transport, Registries: []string{strings.TrimPrefix(secure.URL, "https://")}}
	pull(t, open(t, o, plain), ref)

	h.meddleWith(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			http.Redirect(w, r, plain.URL+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		}
		return false
	})
	_, err := open(t, o, plain).Pull(t.Context(), ref, false, nil)
	wantError(t, err, belljar.CodeImageUnavailable, "from TLS")
	if len(plain.asked) > 0 {
		t.Errorf("it was asked for %v", plain.asked)
	}
}

// TestCanceled tests that a pull without waiting callers ends, and leaves only complete layers.
func TestCanceled(t *testing.T) {
	first, second := noise(t, 10<<10), noise(t, 400<<10)
	h := newHub(t)
	h.put("app:latest", build(t, spec{layers: [][]byte{first, second}}))
	reached := make(chan struct{})
	h.meddleWith(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, digest(second)) {
			return false
		}
		_, _ = w.Write(second[:200<<10])
		w.(http.Flusher).Flush()
		close(reached)
		<-r.Context().Done()
		return true
	})
	path := filepath.Join(t.TempDir(), "images")
	s := open(t, image.Options{Path: path}, h)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-reached
		cancel()
	}()
	if _, err := s.Pull(ctx, h.ref("app"), false, nil); err != context.Canceled {
		t.Errorf("%v, want the context's own error", err)
	}
	if err := s.Close(); err != nil { // waits for work in progress
		t.Fatal(err)
	}
	if left := append(leftovers(t, path), entries(t, path, "images")...); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	for _, l := range entries(t, path, "layers") {
		if "sha256:"+l != digest(first) {
			t.Errorf("layer %s is there", l)
		}
	}
	_, err := s.Pull(t.Context(), h.ref("app"), false, nil)
	wantError(t, err, belljar.CodeCanceled)
	h.meddleWith(nil)
	pull(t, open(t, image.Options{Path: path}, h), h.ref("app"))
}
