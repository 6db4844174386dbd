package rest

import (
	"errors"
	"io"
	"net/http"
	"path"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// ModeHeader carries a file's permission bits in a download.
const ModeHeader = "X-Belljar-Mode"

// putFile writes a file and streams it from the request body.
func (d *Door) putFile(w http.ResponseWriter, r *http.Request) {
	entry, err := d.storeFile(w, r)
	if err != nil {
		api.Fail(w, r, err)
		return
	}
	if entry.ETag != "" {
		w.Header().Set("ETag", entry.ETag)
	}
	api.WriteJSON(w, http.StatusOK, fileStored{true, api.InWorkspace(entry.Path), entry})
}

func (d *Door) storeFile(w http.ResponseWriter, r *http.Request) (belljar.FileEntry, error) {
	none := belljar.FileEntry{}
	if _, err := api.Query(r, "path", "mode", "overwrite"); err != nil {
		return none, err
	}
	query := r.URL.Query()
	file := belljar.FileWrite{Path: query.Get("path"), Size: r.ContentLength, IfMatch: strings.Join(r.Header.Values("If-Match"), ",")}
	mode, bad := api.ParseMode(query.Get("mode"))
	if bad != nil {
		return none, bad
	}
	file.Mode = mode
	switch v := query.Get("overwrite"); v {
	case "", "false":
	case "true":
		file.Overwrite = true
	default:
		return none, api.Refuse("overwrite", "overwrite must be true or false, got %.40q", v)
	}
	fresh := r.Header.Get("If-None-Match")
	if fresh != "" && (fresh != "*" || file.IfMatch != "") {
		return none, api.Refuse("If-None-Match", "If-None-Match of an upload must be *, without If-Match")
	}
	file.Overwrite = file.Overwrite && fresh == ""
	if err := api.CheckEncoding(r, "send the bytes as they are"); err != nil {
		return none, err
	}
	if r.Header.Get("Content-Range") != "" { // a part in place of the whole file would lose the rest
		e := api.Refuse("Content-Range", "a part of a file cannot be written")
		e.Hint = "send the whole file without Content-Range"
		return none, e
	}
	id := r.PathValue("session_id")
	// Check the session before the body: a client should not send 100 MB for nothing. The service checks the size.
	session, err := d.as(r.Context()).Sessions().Get(r.Context(), id)
	if err != nil {
		return none, err
	}
	limit := int64(session.Limits.WorkspaceMB) << 20
	api.LimitBody(w, r, limit)
	body := &source{in: r.Body, limit: limit}
	defer body.close()
	file.Content = body
	entry, err := d.as(r.Context()).Files().Write(r.Context(), id, file)
	var e *belljar.Error
	if fresh != "" && errors.As(err, &e) && e.Details["rule"] == "exists" {
		e.Code, e.Hint = belljar.CodePrecondition, "send overwrite=true without If-None-Match to replace it"
	}
	if err != nil {
		return none, body.cause(err)
	}
	return entry, nil
}

// getFile sends a file: the whole, or one range.
func (d *Door) getFile(w http.ResponseWriter, r *http.Request) {
	if _, err := api.Query(r, "path", "token"); err != nil {
		api.Fail(w, r, err)
		return
	}
	files, id, name := d.as(r.Context()).Files(), r.PathValue("session_id"), r.URL.Query().Get("path")
	// A download has no ETag to compare, since it is not read before it is sent: a range with If-Range is ignored.
	asked := r.Header.Get("Range")
	if r.Header.Get("If-Range") != "" {
		asked = ""
	}
	var offset, limit int64
	look := r.Method == http.MethodHead || asked != ""
	if look {
		limit = 1
	}
	entry, body, err := files.Read(r.Context(), id, name, 0, limit)
	if err != nil {
		api.Fail(w, r, err)
		return
	}
	defer func() { _ = body.Close() }() // read only
	h := w.Header()
	length, status := entry.Size, http.StatusOK
	if asked != "" {
		part, err := parseRange(asked, entry.Size)
		if err != nil {
			unsatisfiable(w, r, entry.Size, err)
			return
		}
		if part != nil {
			offset, length, status = part.start, part.length, http.StatusPartialContent
			h.Set("Content-Range", part.contentRange(entry.Size))
		}
	}
	if look && r.Method != http.MethodHead {
		_ = body.Close() // read only
		if _, body, err = files.Read(r.Context(), id, name, offset, length); err != nil {
			h.Del("Content-Range")
			api.Fail(w, r, err)
			return
		}
		defer func() { _ = body.Close() }() // read only
	}
	setDownloadHeaders(h, "application/octet-stream", path.Base(entry.Path))
	h.Set("Accept-Ranges", "bytes")
	h.Set("Last-Modified", time.Unix(entry.MtimeUnix, 0).UTC().Format(http.TimeFormat))
	h.Set(ModeHeader, entry.Mode)
	h.Set("Content-Length", strconv.FormatInt(length, 10))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	if n, _ := io.Copy(w, &limitedReader{body, length}); n < length {
		panic(http.ErrAbortHandler) // so that the client detects the short body
	}
}

// limitedReader reads at most left bytes, even if the file grows after Content-Length is sent.
type limitedReader struct {
	r    io.Reader
	left int64
}

func (e *limitedReader) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.r.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	return n, err
}

// WriteTo uses the file's WriteTo, which needs no buffer.
func (e *limitedReader) WriteTo(w io.Writer) (int64, error) {
	if from, ok := e.r.(io.WriterTo); ok {
		return from.WriteTo(&limitedWriter{w, e.left})
	}
	return io.CopyN(w, e.r, e.left)
}

// limitedWriter writes at most left bytes.
type limitedWriter struct {
	w    io.Writer
	left int64
}

func (b *limitedWriter) Write(p []byte) (int, error) {
	n, err := b.w.Write(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}

// setDownloadHeaders sets the headers of a file. A browser must not run the sandbox's files in the server's origin.
func setDownloadHeaders(h http.Header, media, name string) {
	h.Set("Content-Type", media)
	h.Set("Content-Disposition", disposition(name))
	h.Set("Cache-Control", "private, no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
}

// getArchive sends a folder as an archive.
func (d *Door) getArchive(w http.ResponseWriter, r *http.Request) {
	if _, err := api.Query(r, "path", "format", "token"); err != nil {
		api.Fail(w, r, err)
		return
	}
	name, format := r.URL.Query().Get("path"), belljar.UploadFormat(r.URL.Query().Get("format"))
	if format == "" {
		format = belljar.UploadTar
	}
	media := map[belljar.UploadFormat]string{
		belljar.UploadTar: "application/x-tar", belljar.UploadTarGz: "application/gzip", belljar.UploadZip: "application/zip",
	}[format]
	if media == "" {
		e := api.Refuse("format", "format %.40q is not known", format)
		e.Details["supported"] = []belljar.UploadFormat{belljar.UploadTar, belljar.UploadTarGz, belljar.UploadZip}
		api.Fail(w, r, e)
		return
	}
	called := path.Base(api.InWorkspace(name)) + "." + string(format)
	out := &lazyWriter{w: w, begin: func() { setDownloadHeaders(w.Header(), media, called) }}
	files, id := d.as(r.Context()).Files(), r.PathValue("session_id")
	var err error
	if r.Method == http.MethodHead {
		if _, err = files.List(r.Context(), id, belljar.FileQuery{Path: name, Limit: 1}); err == nil {
			out.begin()
		}
	} else {
		err = files.Archive(r.Context(), id, name, format, out)
	}
	switch {
	case err != nil && out.begun:
		api.Abort(r.Context(), err)
	case err != nil:
		api.Fail(w, r, err)
	}
}

// lazyWriter starts the response with the first byte; until then the handler can still respond with an error.
type lazyWriter struct {
	w     http.ResponseWriter
	begin func()
	begun bool
	head  bool // the first byte is enough
}

func (l *lazyWriter) Write(b []byte) (int, error) {
	if !l.begun {
		l.begun = true
		l.begin()
		l.w.WriteHeader(http.StatusOK)
	}
	if l.head {
		return 0, http.ErrBodyNotAllowed
	}
	return l.w.Write(b)
}

// declareFiles adds the operations with binary bodies to the document.
func (d *Door) declareFiles(doc *huma.OpenAPI) {
	raw, text := &huma.Schema{Type: "string", Format: "binary"}, &huma.Schema{Type: "string"}
	stored := reflect.TypeFor[fileStored]()
	at := api.Prefix + "/sessions/{session_id}/fs/"
	session := inPath("session_id", "The session's id")
	file := inQuery("path", "The file", text)
	file.Required = true
	doc.AddOperation(&huma.Operation{
		OperationID: "get-file", Method: "GET", Path: at + "raw", Tags: []string{"files"}, Security: byTicket(), Summary: "Download a file",
		Description: "HEAD works, too. A request may have one Range; several are answered with 416, and with If-Range the whole file is sent. " +
			ModeHeader + " has its permission bits. If the file shrinks meanwhile, the answer is aborted.",
		Parameters: []*huma.Param{session, file, inHeader("Range", "bytes=first-last, bytes=first- or bytes=-length"), downloadToken()},
		Responses: map[string]*huma.Response{
			"200": response("The file", "application/octet-stream", raw),
			"206": response("One range of the file, see Content-Range", "application/octet-stream", raw),
			"416": {Ref: "#/components/responses/Failure"},
		},
	})
	doc.AddOperation(&huma.Operation{
		OperationID: "put-file", Method: "PUT", Path: at + "raw", Tags: []string{"files"}, Summary: "Upload a file",
		Description: "Writes atomically: no program sees a part of the file, and after an error the old file is intact. Parent folders are created. " +
			"The answer has an ETag if the file has at most 8 MiB.",
		Parameters: []*huma.Param{session, file,
			inQuery("mode", "Permission bits in octal; default: those of the file that is replaced, or 0644", text),
			inQuery("overwrite", "Whether to replace an existing file, which is a conflict otherwise", &huma.Schema{Type: "boolean"}),
			inHeader("If-Match", "As for fs/write: the file is replaced only if it has one of these ETags; else 412 precondition_failed"),
			inHeader("If-None-Match", "With *, nothing is replaced, whatever overwrite is: a file that exists is 412 precondition_failed"),
		},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/octet-stream": {Schema: raw}}},
		Responses:   map[string]*huma.Response{"200": response("The file as it is now", "application/json", doc.Components.Schemas.Schema(stored, true, stored.Name()))},
	})
	doc.AddOperation(&huma.Operation{
		OperationID: "get-folder", Method: "GET", Path: at + "archive", Tags: []string{"files"}, Security: byTicket(), Summary: "Download a folder",
		Description: "Names are relative and unique. Links that lead out of the folder, and special files, are left out. In a zip archive " +
			"\\ and : become _. After an error the answer is aborted.",
		Parameters: []*huma.Param{session,
			inQuery("path", "The folder, or a file; default: the workspace", text),
			inQuery("format", "Default: tar", &huma.Schema{Type: "string", Enum: []any{"tar", "tar.gz", "zip"}}), downloadToken(),
		},
		Responses: map[string]*huma.Response{"200": {Description: "The folder", Content: map[string]*huma.MediaType{
			"application/x-tar": {Schema: raw}, "application/gzip": {Schema: raw}, "application/zip": {Schema: raw},
		}}},
	})
}
