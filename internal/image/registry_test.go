//go:build linux

package image_test

import (
	"bytes"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
)

// noise returns incompressible bytes for a layer.
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

// TestPlainBadRegistries tests that a registry's fault ends a pull with a reason and leaves nothing half done, and that the
// store still works.
func TestPlainBadRegistries(t *testing.T) {
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
			code: belljar.CodeImageInvalid, words: []string{"cannot be downloaded from registries"},
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
		"variables that are too long": {
			image: spec{layers: [][]byte{layer}, config: map[string]any{"Env": []string{"LONG=" + strings.Repeat("x", 16<<10)}}},
			code:  belljar.CodeImageInvalid, words: []string{"variables and arguments", "16401 bytes"},
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
			if text := fmt.Sprint(err, errorOf(err).Details, errorOf(err).Hint); strings.ContainsAny(text, "\x1b\n") || len(errorOf(err).Message) > 1000 {
				t.Errorf("hostile words: %.200q", text)
			}
			if left := append(leftovers(t, path), entries(t, path, "images")...); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
			if _, err := s.Find(t.Context(), h.ref("bad")); belljar.CodeOf(err) != belljar.CodeImageUnavailable {
				t.Errorf("Find: %v", err)
			}
			h.meddleWith(nil)
			pull(t, s, h.ref("good"))
		})
	}
}
