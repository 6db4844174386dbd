// Package registry is an image registry inside a test process. It holds the test's images, serves plain HTTP on loopback, and can
// simulate delays, refusals and broken connections.
package registry

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Registry stores images. Make one with [New].
type Registry struct {
	server *httptest.Server

	mu     sync.Mutex
	blobs  map[string][]byte // by digest; manifests too
	tags   map[string]string // name:tag → digest, and name@digest → digest
	meddle func(http.ResponseWriter, *http.Request) bool
	asked  []string
}

// Image is the content of an image.
type Image struct {
	Files map[string]string // by path; a name with a trailing slash is a folder
	// Layer is a tar in place of Files.
	Layer []byte
	// Config is the config's part of that name: Env, User, WorkingDir …
	Config map[string]any
	// Arch is its processor architecture; "" is this machine's.
	Arch string
}

// New opens a registry that is closed when the test ends.
func New(t testing.TB) *Registry {
	t.Helper()
	r := &Registry{blobs: map[string][]byte{}, tags: map[string]string{}}
	r.server = httptest.NewServer(r)
	t.Cleanup(r.server.Close)
	return r
}

// Host returns the registry's address, the prefix of its images' names.
func (r *Registry) Host() string { return strings.TrimPrefix(r.server.URL, "http://") }

// Put stores an image under name:tag and returns its reference and digest.
func (r *Registry) Put(t testing.TB, name string, i Image) (ref, digest string) {
	t.Helper()
	layer := i.Layer
	if layer == nil {
		layer = Tar(t, i.Files)
	}
	arch := cmp.Or(i.Arch, runtime.GOARCH)
	config := encode(t, map[string]any{
		"os": "linux", "architecture": arch, "config": i.Config, "rootfs": map[string]any{"type": "layers", "diff_ids": []string{digestOf(layer)}},
	})
	describe := func(media string, data []byte) map[string]any {
		return map[string]any{"mediaType": media, "digest": digestOf(data), "size": len(data)}
	}
	manifest := encode(t, map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": describe("application/vnd.oci.image.config.v1+json", config),
		"layers": []any{describe("application/vnd.oci.image.layer.v1.tar", layer)},
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, blob := range [][]byte{layer, config, manifest} {
		r.blobs[digestOf(blob)] = blob
	}
	digest = digestOf(manifest)
	r.tags[name] = digest
	before, _, _ := strings.Cut(name, ":")
	r.tags[before+"@"+digest] = digest
	return r.Host() + "/" + name, digest
}

// Meddle sets a function that gets every request first. It returns true if it has responded.
func (r *Registry) Meddle(f func(http.ResponseWriter, *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.meddle = f
}

// Asked returns the number of requests with a word in their path.
func (r *Registry) Asked(word string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, path := range r.asked {
		if strings.Contains(path, word) {
			n++
		}
	}
	return n
}

// ServeHTTP implements the part of the registry API that pulls need.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.asked = append(r.asked, req.URL.Path)
	meddle := r.meddle
	r.mu.Unlock()
	if meddle != nil && meddle(w, req) {
		return
	}
	path, ok := strings.CutPrefix(req.URL.Path, "/v2/")
	if !ok || path == "" {
		return
	}
	kind := "/manifests/"
	name, what, found := strings.Cut(path, kind)
	if !found {
		kind = "/blobs/"
		_, what, found = strings.Cut(path, kind)
	}
	r.mu.Lock()
	if kind == "/manifests/" {
		pinned := r.tags[name+"@"+what]
		if what = r.tags[name+":"+what]; what == "" {
			what = pinned
		}
	}
	data, there := r.blobs[what]
	r.mu.Unlock()
	if !found || !there {
		http.Error(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`, http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if kind == "/manifests/" {
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
	}
	w.Header().Set("Docker-Content-Digest", what)
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	if req.Method != http.MethodHead {
		_, _ = w.Write(data) // the client may have disconnected
	}
}

// Tar returns a tar of files. Files in bin are executable.
func Tar(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(files[name]))}
		switch {
		case strings.HasSuffix(name, "/"):
			h.Typeflag, h.Mode, h.Size = tar.TypeDir, 0o755, 0
		case strings.HasPrefix(name, "bin/"):
			h.Mode = 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte(files[name])); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func digestOf(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

func encode(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
