// Package web is the door to the web page: static files, which need no credentials. The page uses the public API for everything
// else.
//
//	GET /webui/…          the page, for every path without a dot
//	GET /webui/assets/…   its scripts and styles, whose names change with their content
package web

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// Root is the page's path.
const Root = "/webui/"

// indexName is the file of the page. [basePlace] and [noncePlace] in it are replaced in every response.
const (
	indexName  = "index.html"
	basePlace  = "__BASE__"
	noncePlace = "__NONCE__"
)

// Options configure a [Door]. Files is required.
type Options struct {
	// Files are index.html and the files that it loads, compressed: name.gz is served as name.
	Files fs.FS
	// BasePath is the path of SANDBOX_PUBLIC_URL, which a proxy strips, without a trailing slash.
	BasePath string
}

// Door serves the page. Make one with [New].
type Door struct {
	index string // with noncePlace
	root  string // URL path of the page for clients
	files map[string]*file
}

// New returns a door. It fails if the page is not among the files, or has no place for the base and the nonce.
func New(opts Options) (*Door, error) {
	if opts.Files == nil {
		return nil, errors.New("web: no files")
	}
	text, err := fs.ReadFile(opts.Files, indexName)
	if err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	for _, place := range []string{basePlace, noncePlace} {
		if !strings.Contains(string(text), place) {
			return nil, fmt.Errorf("web: %s has no %s", indexName, place)
		}
	}
	d := &Door{root: (&url.URL{Path: opts.BasePath + Root}).EscapedPath()}
	d.index = strings.ReplaceAll(string(text), basePlace, html.EscapeString(d.root))
	d.files, err = find(opts.Files)
	return d, err
}

// Register adds the page's routes.
func (d *Door) Register(mux *http.ServeMux) {
	mux.Handle("GET "+strings.TrimSuffix(Root, "/"), http.RedirectHandler(d.root, http.StatusMovedPermanently))
	mux.HandleFunc("GET "+Root+"{path...}", d.serve)
}

// Home sends browsers to the page, and other clients to next.
func (d *Door) Home(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			http.Redirect(w, r, d.root, http.StatusFound)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (d *Door) serve(w http.ResponseWriter, r *http.Request) {
	path := r.PathValue("path")
	if !strings.Contains(path, ".") && !strings.HasPrefix(path, assets) {
		d.page(w, r)
		return
	}
	f, ok := d.files[path]
	if !ok {
		api.Fail(w, r, &belljar.Error{
			Code: belljar.CodeNotFound, Message: "there is no file at " + r.URL.Path, Hint: "reload the page: a newer server has other files",
		})
		return
	}
	setHeaders(w.Header(), "")
	f.serve(w, r)
}

// page responds with the page. Its nonce is for styles that scripts add; each response has a new one.
func (d *Door) page(w http.ResponseWriter, r *http.Request) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	nonce := base64.RawURLEncoding.EncodeToString(random[:])
	h := w.Header()
	setHeaders(h, nonce)
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(strings.ReplaceAll(d.index, noncePlace, nonce))) // fails only if the client is gone
	}
}
