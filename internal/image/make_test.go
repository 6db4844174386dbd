//go:build linux

package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
)

// The media types that the tests use.
const (
	ociIndex    = "application/vnd.oci.image.index.v1+json"
	ociManifest = "application/vnd.oci.image.manifest.v1+json"
	ociConfig   = "application/vnd.oci.image.config.v1+json"
	ociLayer    = "application/vnd.oci.image.layer.v1.tar"
)

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// tarOf makes an archive of alternating names and contents. A name that ends with / is a folder, a content that begins
// with → a symbolic link, with ⇒ a hard link.
func tarOf(t testing.TB, pairs ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		name, content := pairs[i], pairs[i+1]
		h := &tar.Header{Name: name, Mode: 0o644, Typeflag: tar.TypeReg, Size: int64(len(content))}
		if strings.HasSuffix(name, "/") {
			h.Typeflag, h.Mode, h.Size = tar.TypeDir, 0o755, 0
		}
		if to, ok := strings.CutPrefix(content, "→"); ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, to, 0
		}
		if to, ok := strings.CutPrefix(content, "⇒"); ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, to, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := io.WriteString(w, content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstded(t testing.TB, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(data, nil)
}

// farZstded returns a stream that may refer further back than usual.
func farZstded(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithWindowSize(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][]byte{data[:len(data)/2], data[len(data)/2:]} { // the writer must not know the size when it begins
		if _, err := w.Write(part); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// spec describes an image of a test; the zero value is one for this machine without layers.
type spec struct {
	layers [][]byte // plain tars
	pack   string   // gzip, zstd, far zstd or "" for plain
	config map[string]any
	arch   string
	edit   func(m map[string]any) // of the manifest
}

// built is an image in the form in which a registry stores it.
type built struct {
	manifest []byte
	config   []byte
	blobs    map[string][]byte
}

func (b built) digest() string { return digest(b.manifest) }

func build(t testing.TB, s spec) built {
	t.Helper()
	out := built{blobs: map[string][]byte{}}
	diffs, layers := []string{}, []any{}
	for _, plain := range s.layers {
		diffs = append(diffs, digest(plain))
		data, kind := plain, ociLayer
		switch s.pack {
		case "gzip":
			data, kind = gzipped(t, plain), ociLayer+"+gzip"
		case "zstd":
			data, kind = zstded(t, plain), ociLayer+"+zstd"
		case "far zstd":
			data, kind = farZstded(t, plain), ociLayer+"+zstd"
		}
		out.blobs[digest(data)] = data
		layers = append(layers, map[string]any{"mediaType": kind, "digest": digest(data), "size": len(data)})
	}
	arch := s.arch
	if arch == "" {
		arch = runtime.GOARCH
	}
	out.config = encode(t, map[string]any{
		"architecture": arch, "os": "linux", "config": s.config, "rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
		"created": "2024-05-06T07:08:09Z",
	})
	out.blobs[digest(out.config)] = out.config
	m := map[string]any{
		"schemaVersion": 2, "mediaType": ociManifest, "layers": layers,
		"config": map[string]any{"mediaType": ociConfig, "digest": digest(out.config), "size": len(out.config)},
	}
	if s.edit != nil {
		s.edit(m)
	}
	out.manifest = encode(t, m)
	return out
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// hub is a registry in this process whose faults a test can set.
type hub struct {
	*httptest.Server
	mu        sync.Mutex
	manifests map[string][]byte // by repository:tag and repository@digest
	blobs     map[string][]byte
	asked     []string // requests in order
	// meddle may answer a request instead of the hub; it then returns true.
	meddle func(w http.ResponseWriter, r *http.Request) bool
}

func newHub(t testing.TB) *hub {
	t.Helper()
	h := &hub{manifests: map[string][]byte{}, blobs: map[string][]byte{}}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hub) host() string { return strings.TrimPrefix(h.URL, "http://") }

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.asked = append(h.asked, r.URL.Path)
	meddle := h.meddle
	h.mu.Unlock()
	if meddle != nil && meddle(w, r) {
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/v2/")
	switch {
	case !ok:
		http.NotFound(w, r)
	case rest == "":
		w.WriteHeader(http.StatusOK)
	default:
		h.serve(w, r, rest)
	}
}

func (h *hub) serve(w http.ResponseWriter, r *http.Request, rest string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if repo, id, ok := strings.Cut(rest, "/manifests/"); ok {
		sep := ":"
		if strings.HasPrefix(id, "sha256:") {
			sep = "@"
		}
		if data, ok := h.manifests[repo+sep+id]; ok {
			var m struct {
				MediaType string `json:"mediaType"`
			}
			_ = json.Unmarshal(data, &m)
			w.Header().Set("Content-Type", m.MediaType)
			_, _ = w.Write(data)
			return
		}
		refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN", "manifest unknown")
		return
	}
	if _, id, ok := strings.Cut(rest, "/blobs/"); ok {
		if data, ok := h.blobs[id]; ok {
			http.ServeContent(w, r, "", zeroTime, bytes.NewReader(data))
			return
		}
	}
	refuse(w, http.StatusNotFound, "BLOB_UNKNOWN", "blob unknown to registry")
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q}]}`, code, message)
}

// put sets the image of repository:tag.
func (h *hub) put(name string, b built) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.manifests[name] = b.manifest
	h.manifests[repoOf(name)+"@"+b.digest()] = b.manifest
	maps.Copy(h.blobs, b.blobs)
}

func repoOf(name string) string {
	repo, _, _ := strings.Cut(name, ":")
	return repo
}

func (h *hub) meddleWith(f func(w http.ResponseWriter, r *http.Request) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.meddle = f
}

// count returns how many requests had part in their path.
func (h *hub) count(part string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.asked {
		if strings.Contains(p, part) {
			n++
		}
	}
	return n
}

func (h *hub) ref(name string) string { return h.host() + "/" + name }

// open opens a store that may connect to the hubs.
func open(t testing.TB, o image.Options, hubs ...*hub) *image.Store {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "images")
	}
	for _, h := range hubs {
		o.Registries = append(o.Registries, h.host())
	}
	s, err := image.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func pull(t testing.TB, s *image.Store, ref string) belljar.Image {
	t.Helper()
	img, err := s.Pull(t.Context(), ref, false, nil)
	if err != nil {
		t.Fatalf("Pull(%q): %v %+v", ref, err, errorOf(err))
	}
	return img
}

func find(t testing.TB, s *image.Store, ref string) image.Root {
	t.Helper()
	root, err := s.Find(t.Context(), ref)
	if err != nil {
		t.Fatalf("Find(%q): %v", ref, err)
	}
	return root
}

// content reads a file of an image.
func content(t testing.TB, root image.Root, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func errorOf(err error) *belljar.Error {
	var e *belljar.Error
	if errors.As(err, &e) {
		return e
	}
	return &belljar.Error{}
}

// wantError checks an error's code, and that its message, details or hint contain the words.
func wantError(t testing.TB, err error, code belljar.Code, words ...string) {
	t.Helper()
	if belljar.CodeOf(err) != code {
		t.Errorf("error %v (%s), want %s", err, belljar.CodeOf(err), code)
		return
	}
	e := errorOf(err)
	text := fmt.Sprint(e.Message, e.Details, e.Hint)
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q lacks %q", text, w)
		}
	}
}

// leftovers lists the temporary files in a store's folder.
func leftovers(t testing.TB, path string) []string {
	t.Helper()
	var names []string
	for _, dir := range []string{"tmp"} {
		entries, err := os.ReadDir(filepath.Join(path, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, dir+"/"+e.Name())
		}
	}
	return names
}

func entries(t testing.TB, path, folder string) []string {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(path, folder))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}
