//go:build linux

package image_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
)

// noise is a layer that does not compress.
func noise(t testing.TB, bytes int) []byte {
	t.Helper()
	data := make([]byte, bytes)
	x := uint32(7)
	for i := range data {
		x = x*1664525 + 1013904223
		data[i] = byte(x >> 24)
	}
	return tarOf(t, "noise", string(data))
}

// TestBadRegistries: what a registry does wrong ends a pull with a reason, leaves nothing half done, and the store is as
// good as before.
func TestBadRegistries(t *testing.T) {
	layer := noise(t, 300<<10)
	blobPath := "/blobs/" + digest(layer)
	isBlob := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, blobPath) }
	isManifest := func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/manifests/") }
	tests := map[string]struct {
		meddle func(w http.ResponseWriter, r *http.Request) bool
		image  spec
		code   belljar.Code
		words  []string
	}{
		"unknown": {
			meddle: func(w http.ResponseWriter, r *http.Request) bool {
				if isManifest(r) {
					refuse(w, 404, "MANIFEST_UNKNOWN", "manifest unknown")
				}
				return isManifest(r)
			},
			code: belljar.CodeImageUnavailable, words: []string{"does not have it", "manifest unknown"},
		},
		"private": {
			meddle: func(w http.ResponseWriter, r *http.Request) bool {
				if isManifest(r) {
					refuse(w, 403, "DENIED", "requested access to the resource is denied")
				}
				return isManifest(r)
			},
			code: belljar.CodeImageUnavailable, words: []string{"private, or does not exist", "docker login"},
		},
		"too many requests": {
			meddle: func(w http.ResponseWriter, r *http.Request) bool {
				if isManifest(r) {
					w.Header().Set("Retry-After", "77")
					refuse(w, 429, "TOOMANYREQUESTS", "slow down")
				}
				return isManifest(r)
			},
			code: belljar.CodeImageUnavailable, words: []string{"slow down", "retry_after_sec:77", "77 s"},
		},
		"a hostile reason": {
			meddle: func(w http.ResponseWriter, r *http.Request) bool {
				if isManifest(r) {
					w.WriteHeader(400)
					fmt.Fprintf(w, `{"errors":[{"code":"X","message":"\u001b[31mred\n%s"}]}`, strings.Repeat("long", 10_000))
				}
				return isManifest(r)
			},
			code: belljar.CodeImageUnavailable, words: []string{"[31mred"},
		},
		"not a registry": {
			meddle: func(w http.ResponseWriter, r *http.Request) bool { http.NotFound(w, r); return true },
			code:   belljar.CodeImageUnavailable,
		},
		"an endless greeting": {
			meddle: func(w http.ResponseWriter, r *http.Request) bool {
				for r.URL.Path == "/v2/" {
					if _, err := w.Write(bytes.Repeat([]byte(" "), 64<<10)); err != nil {
						return true
					}
				}
				if isManifest(r) {
					http.NotFound(w, r)
				}
				return isManifest(r)
			},
			code: belljar.CodeImageUnavailable, words: []string{"does not have it"},
		},
		"an endless manifest": {
			meddle: func(w http.ResponseWriter, r *http.Request) bool {
				for isManifest(r) {
					if _, err := w.Write(bytes.Repeat([]byte(" "), 64<<10)); err != nil {
						return true
					}
				}
				return false
			},
			code: belljar.CodeImageInvalid, words: []string{"larger than"},
		},
		"a manifest that is none": {
			meddle: func(w http.ResponseWriter, r *http.Request) bool {
				if isManifest(r) {
					fmt.Fprint(w, "<html>welcome</html>")
				}
				return isManifest(r)
			},
			code: belljar.CodeImageInvalid, words: []string{"manifest"},
		},
		"a blob that is missing": {
			meddle: func(w http.ResponseWriter, r *http.Request) bool {
				if isBlob(r) {
					http.NotFound(w, r)
				}
				return isBlob(r)
			},
			code: belljar.CodeImageUnavailable, words: []string{"does not have it"},
		},
		"another blob of the same size": {
			meddle: func(w http.ResponseWriter, r *http.Request) bool {
				if isBlob(r) {
					other := bytes.Clone(layer)
					other[1024] ^= 1
					_, _ = w.Write(other)
				}
				return isBlob(r)
			},
			code: belljar.CodeImageInvalid, words: []string{"has come as"},
		},
		"a size that is a lie": {
			meddle: func(w http.ResponseWriter, r *http.Request) bool {
				if isBlob(r) {
					w.Header().Set("Content-Length", strconv.Itoa(len(layer)*2))
					w.WriteHeader(200)
				}
				return isBlob(r)
			},
			code: belljar.CodeImageUnavailable, words: []string{"has " + strconv.Itoa(len(layer)*2) + " bytes"},
		},
		"a blob that is always cut off": {
			meddle: func(w http.ResponseWriter, r *http.Request) bool {
				if isBlob(r) && r.Header.Get("Range") == "" {
					w.Header().Set("Content-Length", strconv.Itoa(len(layer)))
					_, _ = w.Write(layer[:1000])
					w.(http.Flusher).Flush()
					panic(http.ErrAbortHandler)
				}
				if isBlob(r) {
					panic(http.ErrAbortHandler)
				}
				return false
			},
			code: belljar.CodeImageUnavailable,
		},
		"the wrong part": {
			meddle: func(w http.ResponseWriter, r *http.Request) bool {
				if !isBlob(r) {
					return false
				}
				if r.Header.Get("Range") == "" {
					w.Header().Set("Content-Length", strconv.Itoa(len(layer)))
					_, _ = w.Write(layer[:1000])
					w.(http.Flusher).Flush()
					panic(http.ErrAbortHandler)
				}
				w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(layer)-1, len(layer)))
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(layer)
				return true
			},
			code: belljar.CodeImageUnavailable, words: []string{"another part"},
		},
		"redirects without end": {
			meddle: func(w http.ResponseWriter, r *http.Request) bool {
				if isBlob(r) {
					http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
				}
				return isBlob(r)
			},
			code: belljar.CodeImageUnavailable, words: []string{"leads on more than 5 times"},
		},
		"a redirect to another scheme": {
			meddle: func(w http.ResponseWriter, r *http.Request) bool {
				if isBlob(r) {
					w.Header().Set("Location", "file:///etc/passwd")
					w.WriteHeader(http.StatusTemporaryRedirect)
				}
				return isBlob(r)
			},
			code: belljar.CodeImageUnavailable, words: []string{"leads to file:"},
		},
		"a redirect to an address inside": {
			meddle: func(w http.ResponseWriter, r *http.Request) bool {
				if isBlob(r) {
					http.Redirect(w, r, "https://169.254.169.254/latest/meta-data", http.StatusTemporaryRedirect)
				}
				return isBlob(r)
			},
			code: belljar.CodeImageUnavailable, words: []string{"169.254.169.254 is not a public address", "SANDBOX_IMAGE_REGISTRIES"},
		},
		"a token server inside": {
			meddle: func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/v2/" {
					w.Header().Set("WWW-Authenticate", `Bearer realm="https://localhost:9/token",service="x"`)
					w.WriteHeader(401)
					return true
				}
				return false
			},
			code: belljar.CodeImageUnavailable, words: []string{"not a public address"},
		},
		"schema 1": {
			image: spec{edit: func(m map[string]any) { m["schemaVersion"] = 1 }},
			code:  belljar.CodeImageInvalid, words: []string{"schema 1"},
		},
		"a list and an image at once": {
			image: spec{edit: func(m map[string]any) { m["manifests"] = []any{} }},
			code:  belljar.CodeImageInvalid, words: []string{"at the same time"},
		},
		"a huge config": {
			image: spec{edit: func(m map[string]any) { m["config"].(map[string]any)["size"] = 1 << 40 }},
			code:  belljar.CodeImageInvalid, words: []string{"config"},
		},
		"a chart": {
			image: spec{edit: func(m map[string]any) {
				m["config"].(map[string]any)["mediaType"] = "application/vnd.cncf.helm.config.v1+json"
			}},
			code: belljar.CodeImageInvalid, words: []string{"not an image of programs", "helm"},
		},
		"a layer from elsewhere": {
			image: spec{layers: [][]byte{layer}, edit: func(m map[string]any) {
				m["layers"].([]any)[0].(map[string]any)["mediaType"] = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
			}},
			code: belljar.CodeImageInvalid, words: []string{"not to be had from registries"},
		},
		"a layer of an unknown kind": {
			image: spec{layers: [][]byte{layer}, edit: func(m map[string]any) {
				m["layers"].([]any)[0].(map[string]any)["mediaType"] = "application/wasm"
			}},
			code: belljar.CodeImageInvalid, words: []string{"unknown type"},
		},
		"too many layers": {
			image: spec{layers: [][]byte{layer}, edit: func(m map[string]any) {
				l := m["layers"].([]any)
				for len(l) < 128 {
					l = append(l, l[0])
				}
				m["layers"] = l
			}},
			code: belljar.CodeImageInvalid, words: []string{"128 layers"},
		},
		"layers that the config does not know": {
			image: spec{layers: [][]byte{layer}, edit: func(m map[string]any) { m["layers"] = []any{} }},
			code:  belljar.CodeImageInvalid, words: []string{"its config is of 1 layers, and it has 0"},
		},
		"a layer too large to be true": {
			image: spec{layers: [][]byte{layer}, edit: func(m map[string]any) {
				m["layers"].([]any)[0].(map[string]any)["size"] = int64(1) << 60
			}},
			code: belljar.CodeImageInvalid, words: []string{"bytes"},
		},
		"a negative size": {
			image: spec{layers: [][]byte{layer}, edit: func(m map[string]any) {
				m["layers"].([]any)[0].(map[string]any)["size"] = -1
			}},
			code: belljar.CodeImageInvalid, words: []string{"size"},
		},
		"a layer that leaves the image": {
			image: spec{layers: [][]byte{tarOf(t, "../../escaped", "x")}},
			code:  belljar.CodeImageInvalid, words: []string{"escaped"},
		},
		"a layer that is no tar": {
			image: spec{layers: [][]byte{bytes.Repeat([]byte("no tar "), 500)}},
			code:  belljar.CodeImageInvalid,
		},
		"a user whom nobody knows": {
			image: spec{layers: [][]byte{layer}, config: map[string]any{"User": "nobody-knows"}},
			code:  belljar.CodeImageInvalid, words: []string{"nobody-knows"},
		},
		"a variable that no program can be given": {
			image: spec{layers: [][]byte{layer}, config: map[string]any{"Env": []string{"LONG=" + strings.Repeat("x", 128<<10)}}},
			code:  belljar.CodeImageInvalid, words: []string{"variable LONG", "131077 bytes"},
		},
		"another architecture": {
			image: spec{layers: [][]byte{layer}, arch: "s390x"},
			code:  belljar.CodeImageUnavailable, words: []string{"linux/s390x"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			if tt.image.layers == nil && tt.image.edit == nil {
				tt.image.layers = [][]byte{layer}
			}
			h.put("bad:latest", build(t, tt.image))
			h.put("good:latest", build(t, spec{layers: [][]byte{tarOf(t, "f", "fine")}}))
			h.meddleWith(tt.meddle)
			path := filepath.Join(t.TempDir(), "images")
			s := open(t, image.Options{Path: path}, h)
			_, err := s.Pull(t.Context(), h.ref("bad"), false, nil)
			wantError(t, err, tt.code, tt.words...)
			if said := fmt.Sprint(err, errorOf(err).Details, errorOf(err).Hint); strings.ContainsAny(said, "\x1b\n") || len(errorOf(err).Message) > 1000 {
				t.Errorf("hostile words: %.200q", said)
			}
			if left := append(leftovers(t, path), entries(t, path, "images")...); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if _, err := s.Find(t.Context(), h.ref("bad")); belljar.CodeOf(err) != belljar.CodeImageUnavailable {
				t.Errorf("Find: %v", err)
			}
			h.meddleWith(nil)
			pull(t, s, h.ref("good"))
		})
	}
}

// TestResume: a connection that breaks is taken up where it broke, with or without ranges.
func TestResume(t *testing.T) {
	layer := noise(t, 300<<10)
	for name, ranges := range map[string]bool{"ranges": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			h.put("app:latest", build(t, spec{layers: [][]byte{layer}}))
			var sent atomic.Int64
			h.meddleWith(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, digest(layer)) {
					return false
				}
				from := 0
				if v := r.Header.Get("Range"); v != "" && ranges {
					if _, err := fmt.Sscanf(v, "bytes=%d-", &from); err != nil {
						t.Error(err)
					}
					w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(layer)-1, len(layer)))
					w.Header().Set("Content-Length", strconv.Itoa(len(layer)-from))
					w.WriteHeader(http.StatusPartialContent)
				}
				until := min(len(layer), from+150<<10)
				if !ranges {
					until = min(len(layer), int(sent.Load())+150<<10)
					w.Header().Set("Content-Length", strconv.Itoa(len(layer)))
				}
				n, _ := w.Write(layer[from:until])
				sent.Add(int64(n))
				if until < len(layer) {
					w.(http.Flusher).Flush()
					panic(http.ErrAbortHandler)
				}
				return true
			})
			s := open(t, image.Options{}, h)
			pull(t, s, h.ref("app"))
			if ranges && sent.Load() != int64(len(layer)) {
				t.Errorf("%d bytes were sent for %d", sent.Load(), len(layer))
			}
		})
	}
}

// TestBreaksOften: a connection may break as often as it likes, if enough comes in between.
func TestBreaksOften(t *testing.T) {
	layer := noise(t, 14<<20)
	h := newHub(t)
	h.put("app:latest", build(t, spec{layers: [][]byte{layer}}))
	var breaks atomic.Int32
	h.meddleWith(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, digest(layer)) {
			return false
		}
		from := 0
		if v := r.Header.Get("Range"); v != "" {
			if _, err := fmt.Sscanf(v, "bytes=%d-", &from); err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(layer)-1, len(layer)))
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(layer)-from))
		if from > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		until := min(len(layer), from+2<<20)
		_, _ = w.Write(layer[from:until])
		if until < len(layer) {
			breaks.Add(1)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		return true
	})
	pull(t, open(t, image.Options{}, h), h.ref("app"))
	if n := breaks.Load(); n < 6 {
		t.Errorf("it broke %d times", n)
	}
}

// TestUnknownAuthority: a registry whose certificate nobody here trusts is not talked to without, and why is told.
func TestUnknownAuthority(t *testing.T) {
	h := newHub(t)
	secure := httptest.NewUnstartedServer(h)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	host := strings.TrimPrefix(secure.URL, "https://")
	_, err := open(t, image.Options{Registries: []string{host}}).Pull(t.Context(), host+"/app", false, nil)
	wantError(t, err, belljar.CodeImageUnavailable, "certificate", "SSL_CERT_FILE")
	if len(h.asked) > 0 {
		t.Errorf("it was asked for %v", h.asked)
	}
}

// TestStall: a registry that stops in the middle, or drips, is given up.
func TestStall(t *testing.T) {
	layer := noise(t, 300<<10)
	for name, drip := range map[string]time.Duration{"stops": time.Hour, "drips": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			h.put("app:latest", build(t, spec{layers: [][]byte{layer}}))
			h.meddleWith(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, digest(layer)) {
					return false
				}
				w.Header().Set("Content-Length", strconv.Itoa(len(layer)))
				_, _ = w.Write(layer[:100<<10])
				for i := 100 << 10; ; i++ {
					w.(http.Flusher).Flush()
					timer := time.NewTimer(drip)
					select {
					case <-r.Context().Done():
						timer.Stop()
						return true
					case <-timer.C:
						if _, err := w.Write(layer[i : i+1]); err != nil {
							return true
						}
					}
				}
			})
			// A transport without a bound of its own: on a busy machine any answer may stall, and each is told in the same way.
			plain := &http.Transport{}
			defer plain.CloseIdleConnections()
			s := open(t, image.Options{Stall: 2 * time.Second, Transport: plain}, h)
			_, err := s.Pull(t.Context(), h.ref("app"), false, nil)
			wantError(t, err, belljar.CodeImageUnavailable, "sends nothing, or next to nothing")
		})
	}
}

// TestAddresses: a registry that is not public is not talked to unless the operator has named it.
func TestAddresses(t *testing.T) {
	h := newHub(t)
	h.put("app:latest", build(t, spec{}))
	s := open(t, image.Options{})
	for _, ref := range []string{h.ref("app"), "localhost:1/app", "[::1]:1/app", "10.0.0.1/app", "169.254.169.254/app"} {
		_, err := s.Pull(t.Context(), ref, false, nil)
		wantError(t, err, belljar.CodeImageUnavailable, "not a public address", "SANDBOX_IMAGE_REGISTRIES")
	}
	if len(h.asked) > 0 {
		t.Errorf("it was asked for %v", h.asked)
	}
}

// TestDown: a registry that is not there, that speaks no HTTP, or TLS with a certificate of nobody's.
func TestDown(t *testing.T) {
	down := refusing(t)
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	go func() {
		for {
			c, err := mute.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 100))
			_, _ = c.Write([]byte("220 mail.example ESMTP\r\n"))
			_ = c.Close()
		}
	}()
	secure := httptest.NewTLSServer(newHub(t))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer secure.Close()
	for host, words := range map[string][]string{
		down:                            {"connection refused", "can be reached"},
		mute.Addr().String():            {"can be reached"},
		secure.Listener.Addr().String(): {"certificate"},
	} {
		s := open(t, image.Options{Registries: []string{host}})
		_, err := s.Pull(t.Context(), host+"/app", false, nil)
		wantError(t, err, belljar.CodeImageUnavailable, words...)
	}
}

// refusing is an address at which nobody listens, and nobody else can begin to while the test runs.
func refusing(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", at.(*unix.SockaddrInet4).Port)
}

// TestTokens: who signs on does so at the token server only, over a plain connection only on this machine, and what he signs
// on with goes to no other host.
func TestTokens(t *testing.T) {
	layer := tarOf(t, "f", "secret")
	b := build(t, spec{layers: [][]byte{layer}})
	elsewhere := newHub(t) // where blobs are really kept
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
	var self atomic.Pointer[string] // what the hub is called
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

// TestPlainPassword: a private registry on this machine gets its password over a plain connection, another one does not, and
// why is told.
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

// leading is a transport for which the name from leads to the address to.
func leading(from, to string) http.RoundTripper {
	return &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == from {
			address = to
		}
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}}
}

// hanging is a keychain that does not answer before it is told to.
type hanging struct {
	asked chan struct{}
	let   chan struct{}
}

func (h hanging) Resolve(authn.Resource) (authn.Authenticator, error) {
	h.asked <- struct{}{}
	<-h.let
	return authn.Anonymous, nil
}

// TestHangingKeychain: a program that keeps passwords and hangs is waited for as long as the caller likes, no longer than
// its time, and not asked again before it answers. The store closes without it, and it is asked as before when it works.
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
	s := open(t, image.Options{Keychain: keys, Asking: 50 * time.Millisecond}, free, h)
	pull(t, s, free.ref("app")) // asks for no password, so that nobody is asked for one
	_, err := s.Pull(t.Context(), h.ref("app"), false, nil)
	wantError(t, err, belljar.CodeImageUnavailable, "credentials for "+h.host(), "does not answer", "credHelpers")
	_, err = s.Pull(t.Context(), h.ref("app"), false, nil)
	wantError(t, err, belljar.CodeImageUnavailable, "does not answer")
	<-keys.asked // on a busy machine only now
	if n := len(keys.asked); n != 0 {
		t.Errorf("it was asked %d times more", n)
	}
	patient := open(t, image.Options{Keychain: keys, Asking: time.Hour}, h)
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

// password is a keychain that has a password for everybody.
type password struct{}

func (password) Resolve(authn.Resource) (authn.Authenticator, error) {
	return &authn.Basic{Username: "user", Password: "hush"}, nil
}

// TestTLS: over TLS a password is used, and a redirect that leaves TLS is not followed.
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

// TestCanceled: a pull that nobody waits for ends, and leaves whole layers only.
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
	if err := s.Close(); err != nil { // waits for what still goes on
		t.Fatal(err)
	}
	if left := append(leftovers(t, path), entries(t, path, "images")...); len(left) > 0 {
		t.Errorf("left behind: %v", left)
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
