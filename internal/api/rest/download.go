package rest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/gabriel-vasile/mimetype"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// sniffLen is how many bytes of a file are read to detect its media type.
const sniffLen = 3072

// download sends an artifact: the whole, or one range.
func (d *Door) download(w http.ResponseWriter, r *http.Request) {
	_, err := api.Query(r, "token")
	name := ""
	if err == nil {
		name, err = artifactPath(r.PathValue("path"))
	}
	if err != nil {
		api.Fail(w, r, err)
		return
	}
	store, id := d.as(r.Context()).Artifacts(), r.PathValue("run_id")
	found, content, err := store.Open(r.Context(), id, name, 0)
	if err != nil {
		api.Fail(w, r, err)
		return
	}
	defer func() { _ = content.Close() }() // read only

	tag := etag(found)
	h := w.Header()
	h.Set("Accept-Ranges", "bytes")
	h.Add("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Belljar-File-Mode", fmt.Sprintf("%04o", found.Mode))
	if tag != "" {
		h.Set("ETag", tag)
		if api.Matches(r.Header.Get("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	var part *span
	if given := r.Header.Get("If-Range"); r.Header.Get("Range") != "" && (given == "" || given == tag) {
		if part, err = parseRange(r.Header.Get("Range"), found.Size); err != nil {
			unsatisfiable(w, r, found.Size, err)
			return
		}
	}

	head := make([]byte, min(sniffLen, found.Size))
	if _, err = io.ReadFull(content, head); err != nil {
		api.Fail(w, r, err)
		return
	}
	media := mediaType(head, name)
	h.Set("Content-Type", media)
	h.Set("Content-Disposition", disposition(name))
	// A browser must not run the sandbox's files in the server's origin.
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")

	if part != nil {
		d.sendPart(w, r, *part, found, head, content)
		return
	}
	body := io.MultiReader(bytes.NewReader(head), content)
	if isText(media) && found.Size > 0 && api.TakesGzip(r.Header.Get("Accept-Encoding")) {
		sendGzip(w, r, tag, body)
		return
	}
	h.Set("Content-Length", strconv.FormatInt(found.Size, 10))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = io.Copy(w, body) // Content-Length reveals a short body
	}
}

// sendPart sends one range. It reopens the artifact at the start of the range, unless that is within head.
func (d *Door) sendPart(w http.ResponseWriter, r *http.Request, part span, found belljar.Artifact, head []byte, content io.Reader) {
	body := io.Reader(bytes.NewReader(nil))
	if part.start <= int64(len(head)) {
		body = io.MultiReader(bytes.NewReader(head[part.start:]), content)
	} else if r.Method != http.MethodHead {
		_, later, err := d.as(r.Context()).Artifacts().Open(r.Context(), r.PathValue("run_id"), found.Path, part.start)
		if err != nil {
			api.Fail(w, r, err)
			return
		}
		defer func() { _ = later.Close() }() // read only
		body = later
	}
	w.Header().Set("Content-Range", part.contentRange(found.Size))
	w.Header().Set("Content-Length", strconv.FormatInt(part.length, 10))
	w.WriteHeader(http.StatusPartialContent)
	if r.Method != http.MethodHead {
		_, _ = io.CopyN(w, body, part.length) // Content-Length reveals a short body
	}
}

// sendGzip sends compressed text, with an ETag of its own since the bytes differ.
func sendGzip(w http.ResponseWriter, r *http.Request, tag string, body io.Reader) {
	h := w.Header()
	h.Set("Content-Encoding", "gzip")
	h.Del("Accept-Ranges")
	if tag != "" {
		h.Set("ETag", strings.TrimSuffix(tag, `"`)+`-gzip"`)
	}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err == nil {
		if _, err = io.Copy(z, body); err == nil {
			err = z.Close()
		}
	}
	if err != nil {
		panic(http.ErrAbortHandler) // so that the client detects the short body
	}
}

// etag returns an artifact's strong ETag, or "".
func etag(a belljar.Artifact) string {
	if a.Digest == "" {
		return ""
	}
	return `"` + a.Digest + `"`
}

// mediaType detects a file's media type from its first bytes, and for plain text from its name.
func mediaType(head []byte, name string) string {
	media := mimetype.Detect(head).String()
	if !strings.HasPrefix(media, "text/plain") {
		return media
	}
	better := map[string]string{
		".css": "text/css", ".csv": "text/csv", ".js": "text/javascript", ".md": "text/markdown", ".tsv": "text/tab-separated-values",
	}[strings.ToLower(path.Ext(name))]
	if better == "" {
		return media
	}
	_, params, _ := strings.Cut(media, ";")
	return better + ";" + params
}

// isText reports whether a media type is worth compressing.
func isText(media string) bool {
	media, _, _ = strings.Cut(media, ";")
	media = strings.TrimSpace(media)
	switch media {
	case "application/json", "application/xml", "application/x-ndjson":
		return true
	}
	return strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+json") || strings.HasSuffix(media, "+xml")
}

func disposition(name string) string {
	if d := mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}); d != "" {
		return d
	}
	return "attachment"
}
