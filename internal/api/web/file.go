package web

import (
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
	"time"

	"github.com/belljar/belljar/internal/api"
)

const (
	// assets is the folder of the files whose names have a hash of their content.
	assets = "assets/"
	// packed is the suffix of compressed forms.
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

// file is a file that the page loads.
type file struct {
	plain, gz content // gz has no name if there is no compressed form
	media     string
	lasting   bool // its content never changes
}

// content is one form of a file. It stays where it is: nothing holds a copy in memory.
type content struct {
	files fs.FS
	name  string
	size  int64
	etag  func() (string, error) // computed once, with the first request
}

// find returns the files that the page loads, by their paths.
func find(files fs.FS) (map[string]*file, error) {
	found := map[string]*file{}
	forms := map[string]content{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		c := content{files: files, name: name, size: info.Size()}
		c.etag = sync.OnceValues(c.hash)
		if of, ok := strings.CutSuffix(name, packed); ok {
			forms[of] = c
			return nil
		}
		if name == indexName {
			return nil
		}
		f := &file{plain: c, media: media(name), lasting: strings.HasPrefix(name, assets)}
		if f.media == "" {
			return fmt.Errorf("web: %s is of an unknown type", name)
		}
		found[name] = f
		return nil
	})
	for name, f := range found {
		f.gz = forms[name]
	}
	return found, err
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	c := f.plain
	if f.gz.name != "" {
		h.Add("Vary", "Accept-Encoding")
		if takesGzip(r.Header.Get("Accept-Encoding")) {
			c = f.gz
		}
	}
	tag, err := c.etag()
	if err != nil {
		api.Fail(w, r, err)
		return
	}
	in, err := c.files.Open(c.name)
	if err != nil {
		api.Fail(w, r, err)
		return
	}
	defer in.Close()
	body, ok := in.(io.ReadSeeker)
	if !ok {
		api.Fail(w, r, fmt.Errorf("web: %s cannot seek", c.name))
		return
	}
	h.Set("Content-Type", f.media)
	h.Set("ETag", tag)
	h.Set("Cache-Control", "no-cache")
	if f.lasting {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if c.name == f.gz.name {
		h.Set("Content-Encoding", "gzip")
		if r.Header.Get("Range") == "" {
			h.Set("Content-Length", strconv.FormatInt(c.size, 10)) // ServeContent leaves it out
		}
	}
	http.ServeContent(w, r, "", time.Time{}, body)
}

// hash returns the ETag: each form of a file has its own.
func (c content) hash() (string, error) {
	in, err := c.files.Open(c.name)
	if err != nil {
		return "", err
	}
	defer in.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, in); err != nil {
		return "", err
	}
	return `"` + base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:16]) + `"`, nil
}

// takesGzip reports whether an Accept-Encoding header names gzip, and not with q=0.
func takesGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, parameter, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		text, weighted := strings.CutPrefix(strings.TrimSpace(parameter), "q=")
		weight, err := strconv.ParseFloat(text, 64)
		return !weighted || err == nil && weight > 0
	}
	return false
}
