package web

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/belljar/belljar/internal/api"
)

const (
	// assets is the folder of the files whose names have a hash of their content.
	assets = "assets/"
	// packed is the suffix of the stored files. Clients that accept gzip get them unchanged.
	packed = ".gz"
)

// media returns the content type of a file. It does not depend on the machine, unlike package mime.
func media(name string) string {
	switch path.Ext(name) {
	case ".js", ".mjs":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	case ".ico":
		return "image/x-icon"
	case ".woff2":
		return "font/woff2"
	case ".json":
		return "application/json"
	case ".webmanifest":
		return "application/manifest+json"
	case ".txt":
		return "text/plain; charset=utf-8"
	}
	return ""
}

// file is a file that the page loads. It stays in its file system; no copy is kept in memory.
type file struct {
	files   fs.FS
	name    string // of the compressed form, the only one
	size    int64
	media   string
	lasting bool                   // its content never changes
	hash    func() (string, error) // computed once, with the first request
}

// find returns the files that the page loads, by their paths.
func find(files fs.FS) (map[string]*file, error) {
	found := map[string]*file{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || name == indexName {
			return err
		}
		path, ok := strings.CutSuffix(name, packed)
		if !ok || media(path) == "" {
			return fmt.Errorf("web: %s is not compressed, or of an unknown type", name)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		f := &file{files: files, name: name, size: info.Size(), media: media(path), lasting: strings.HasPrefix(path, assets)}
		f.hash = sync.OnceValues(f.sum)
		found[path] = f
		return nil
	})
	return found, err
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	hash, err := f.hash()
	if err != nil {
		api.Fail(w, r, err)
		return
	}
	in, err := f.files.Open(f.name)
	if err != nil {
		api.Fail(w, r, err)
		return
	}
	defer in.Close()
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	h.Set("Content-Type", f.media)
	h.Set("Cache-Control", "no-cache")
	if f.lasting {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	plain := !api.TakesGzip(r.Header.Get("Accept-Encoding"))
	tag := `"` + hash + `"`
	if plain {
		tag = `"` + hash + `-plain"`
	}
	h.Set("ETag", tag)
	if api.Matches(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := io.Reader(in)
	if plain {
		if body, err = gzip.NewReader(in); err != nil {
			api.Fail(w, r, err)
			return
		}
	} else {
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.FormatInt(f.size, 10))
	}
	if r.Method != http.MethodHead {
		_, _ = io.Copy(w, body) // fails only if the client is gone
	}
}

// sum returns the hash for ETags.
func (f *file) sum() (string, error) {
	in, err := f.files.Open(f.name)
	if err != nil {
		return "", err
	}
	defer in.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, in); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:16]), nil
}
