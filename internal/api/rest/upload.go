package rest

import (
	"io"
	"iter"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// mediaTypes are the media types of an upload. A single file may have any type.
func mediaTypes() []string {
	return []string{"multipart/form-data", "application/x-tar", "application/gzip", "application/zip", "application/octet-stream"}
}

func (d *Door) uploads() {
	d.guarded("POST "+api.Prefix+"/sessions/{session_id}/files", d.upload)
}

func (d *Door) upload(w http.ResponseWriter, r *http.Request) {
	result, err := d.receive(w, r)
	if err != nil {
		api.Fail(w, r, err)
		return
	}
	api.WriteJSON(w, http.StatusOK, result)
}

func (d *Door) receive(w http.ResponseWriter, r *http.Request) (belljar.UploadResult, error) {
	if _, err := api.Query(r, "path", "dir", "extract"); err != nil {
		return belljar.UploadResult{}, err
	}
	id := r.PathValue("session_id")
	// Check the session before the body: a client should not send 64 MB for nothing.
	session, err := d.as(r.Context()).Sessions().Get(r.Context(), id)
	if err != nil {
		return belljar.UploadResult{}, err
	}
	if session.State.Ended() {
		return belljar.UploadResult{}, &belljar.Error{
			Code: belljar.CodeConflict, Message: "the session has ended", Details: map[string]any{"state": session.State},
		}
	}
	limit := d.opts.MaxUpload + framing
	give, err := d.spools.Take(r.Context(), api.CallerOf(r.Context()).ID, api.BodySize(r.ContentLength, limit))
	if err != nil {
		return belljar.UploadResult{}, err
	}
	defer give()
	api.LimitBody(w, r, limit)
	body := &source{in: r.Body, limit: d.opts.MaxUpload}
	defer body.close()
	up, err := parseUpload(r, body)
	if err != nil {
		return belljar.UploadResult{}, err
	}
	result, err := d.as(r.Context()).Sessions().Upload(r.Context(), id, up)
	if err != nil {
		return belljar.UploadResult{}, body.cause(err)
	}
	return result, nil
}

// source is a body that records the first read error and refuses reads after close.
type source struct {
	limit int64

	mu     sync.Mutex
	in     io.Reader
	err    error
	closed bool
}

func (s *source) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := s.in.Read(p)
	if err != nil && err != io.EOF && s.err == nil {
		s.err = api.BodyError(err, s.limit)
	}
	return n, err
}

// cause records err unless there is an earlier error, and returns the first.
func (s *source) cause(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	return s.err
}

// close waits for the current read and fails all later ones.
func (s *source) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// parseUpload parses the request of an upload. It does not read the body.
func parseUpload(r *http.Request, body *source) (belljar.Upload, error) {
	query := r.URL.Query()
	up := belljar.Upload{Dir: query.Get("dir")}
	extract := true
	switch v := query.Get("extract"); v {
	case "", "true":
	case "false":
		extract = false
	default:
		return up, api.Refuse("extract", "extract must be true or false, got %.40q", v)
	}
	if err := api.CheckEncoding(r, "send the bytes as they are, or a compressed archive by its media type"); err != nil {
		return up, err
	}
	given := r.Header.Get("Content-Type")
	media, params, err := mime.ParseMediaType(given)
	if err != nil {
		return up, api.WrongType(given, mediaTypes()...)
	}
	if media == "multipart/form-data" {
		if query.Has("path") {
			return up, api.Refuse("path", "path is for a single file; use dir and a file name")
		}
		up.Parts = formParts(body, params["boundary"], extract)
		return up, nil
	}
	format, archive := map[string]belljar.UploadFormat{
		"application/x-tar": belljar.UploadTar, "application/tar": belljar.UploadTar,
		"application/x-gtar": belljar.UploadTar, // GNU tar, uncompressed
		"application/gzip":   belljar.UploadTarGz, "application/x-gzip": belljar.UploadTarGz,
		"application/x-compressed-tar": belljar.UploadTarGz, "application/x-gtar-compressed": belljar.UploadTarGz,
		"application/zip": belljar.UploadZip, "application/x-zip-compressed": belljar.UploadZip,
	}[media]
	path := query.Get("path")
	switch {
	case path != "": // one file of any type
		if up.Parts, err = onePart(belljar.UploadPart{Name: path, Format: belljar.UploadFile, Body: body}); err != nil {
			return up, err
		}
	case archive && extract:
		up.Parts, err = onePart(belljar.UploadPart{Format: format, Body: body})
	case archive || media == "application/octet-stream" || strings.HasPrefix(media, "text/"):
		e := api.Refuse("path", "a single file needs ?path=, its path in the workspace")
		e.Hint = "send an archive as application/x-tar, application/gzip or application/zip, or files as multipart/form-data"
		return up, e
	default:
		return up, api.WrongType(given, mediaTypes()...)
	}
	return up, err
}

func onePart(p belljar.UploadPart) (iter.Seq2[belljar.UploadPart, error], error) {
	if p.Format == belljar.UploadFile {
		if err := checkName("path", p.Name); err != nil {
			return nil, err
		}
	}
	return func(yield func(belljar.UploadPart, error) bool) { yield(p, nil) }, nil
}
