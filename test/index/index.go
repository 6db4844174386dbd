//go:build linux

// Package index is an index of Python packages and a registry of Node packages for black-box tests, on the web server of a peer.
package index

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar/test/peer"
)

// Index serves both, at https://Host/pip/ and https://Host/npm/. Its files are on another host.
type Index struct {
	Host, Files string

	mu    sync.Mutex
	pages map[string][]byte // by path
	got   map[string]int
}

// Start serves an index on a peer that has the two hosts.
func Start(t testing.TB, p *peer.Peer, host, files string) *Index {
	t.Helper()
	x := &Index{Host: host, Files: files, pages: map[string][]byte{}, got: map[string]int{}}
	p.Handle("/pip/", x.serve)
	p.Handle("/npm/", x.serve)
	p.Handle("/files/", x.serve)
	return x
}

// PipURL returns the address for pip's settings.
func (x *Index) PipURL() string { return "https://" + x.Host + "/pip" }

// NpmURL returns the address for npm's settings.
func (x *Index) NpmURL() string { return "https://" + x.Host + "/npm" }

// Fetched returns how often the file with this name was fetched.
func (x *Index) Fetched(name string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.got[name]
}

func (x *Index) serve(w http.ResponseWriter, r *http.Request) {
	path := strings.ReplaceAll(r.URL.EscapedPath(), "%2f", "/")
	files := strings.HasPrefix(path, "/files/")
	x.mu.Lock()
	page, ok := x.pages[path]
	if files {
		x.got[strings.TrimPrefix(path, "/files/")]++
	}
	x.mu.Unlock()
	switch want := map[bool]string{true: x.Files, false: x.Host}[files]; {
	case !ok || r.Host != want:
		http.NotFound(w, r)
	case page == nil:
		w.WriteHeader(http.StatusServiceUnavailable)
	case strings.HasPrefix(path, "/pip/"):
		w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
		_, _ = w.Write(page)
	case strings.HasPrefix(path, "/npm/"):
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(page)
	default:
		_, _ = w.Write(page)
	}
}

func (x *Index) put(path string, body []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pages[path] = body
}

// Busy makes the index answer 503 for a file until ready is called.
func (x *Index) Busy(file string) (ready func()) {
	x.mu.Lock()
	page := x.pages["/files/"+file]
	x.mu.Unlock()
	x.put("/files/"+file, nil)
	return func() { x.put("/files/"+file, page) }
}

// pip adds the only file of a project to the index. The index's list contains only the last project.
func (x *Index) pip(project, file string, body []byte) {
	sum := sha256.Sum256(body)
	page, _ := json.Marshal(map[string]any{
		"meta": map[string]any{"api-version": "1.0"}, "name": project,
		"files": []any{map[string]any{
			"filename": file, "url": "https://" + x.Files + "/files/" + file, "hashes": map[string]string{"sha256": hex.EncodeToString(sum[:])},
		}},
	})
	x.put("/pip/"+project+"/", page)
	x.put("/pip/", fmt.Appendf(nil, `{"meta": {"api-version": "1.0"}, "projects": [{"name": %q}]}`, project))
	x.put("/files/"+file, body)
}

// Wheel adds a wheel of a project, with a version and files, to the index. Lines of metadata may follow.
func (x *Index) Wheel(project, version string, files map[string]string, metadata ...string) {
	file := strings.ReplaceAll(project, "-", "_") + "-" + version
	info := file + ".dist-info/"
	all := maps.Clone(files)
	all[info+"METADATA"] = "Metadata-Version: 2.1\nName: " + project + "\nVersion: " + version + "\n" + strings.Join(metadata, "\n") + "\n"
	all[info+"WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
	var record strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		sum := sha256.Sum256([]byte(all[name]))
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(all[name]))
	}
	all[info+"RECORD"] = record.String() + info + "RECORD,,\n"
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f, _ := w.Create(name)
		_, _ = f.Write([]byte(all[name]))
	}
	_ = w.Close()
	x.pip(project, file+"-py3-none-any.whl", out.Bytes())
}

// Source adds the source of a project to the index, without a wheel.
func (x *Index) Source(project, version string, files map[string]string) {
	x.pip(project, project+"-"+version+".tar.gz", archive(project+"-"+version+"/", files))
}

// Node adds a package with a version and files to the registry. scripts are those of its package.json, bin its programs, more its other members.
func (x *Index) Node(name, version string, files, scripts, bin map[string]string, more ...map[string]any) {
	if scripts == nil {
		scripts = map[string]string{}
	}
	about := map[string]any{"name": name, "version": version, "main": "index.js", "scripts": scripts, "bin": bin}
	for _, m := range more {
		maps.Copy(about, m)
	}
	text, _ := json.Marshal(about)
	all := maps.Clone(files)
	all["package.json"] = string(text)
	body := archive("package/", all)
	sum := sha512.Sum512(body)
	file := strings.ReplaceAll(strings.TrimPrefix(name, "@"), "/", "-") + "-" + version + ".tgz"
	about["dist"] = map[string]any{
		"tarball": "https://" + x.Files + "/files/" + file, "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
	}
	if len(scripts) > 0 {
		about["hasInstallScript"] = true
	}
	page, _ := json.Marshal(map[string]any{
		"name": name, "dist-tags": map[string]string{"latest": version}, "versions": map[string]any{version: about},
	})
	x.put("/npm/"+name, page)
	x.put("/files/"+file, body)
}

// archive is a .tar.gz of files.
func archive(folder string, files map[string]string) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		_ = w.WriteHeader(&tar.Header{Name: folder + name, Mode: 0o755, Size: int64(len(files[name])), Typeflag: tar.TypeReg})
		_, _ = w.Write([]byte(files[name]))
	}
	_ = w.Close()
	_ = z.Close()
	return out.Bytes()
}
