package client

import (
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"

	"github.com/belljar/belljar"
)

// sessions are the caller's sessions on the server.
type sessions struct{ c *Client }

// Create makes a session. A request whose connection breaks is repeated under the same idempotency key.
func (s sessions) Create(ctx context.Context, req belljar.SessionRequest) (belljar.Session, error) {
	body, err := json.Marshal(req.SessionSpec)
	if err != nil {
		return belljar.Session{}, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "the request cannot be sent", Err: err}
	}
	key := req.IdempotencyKey
	if key == "" {
		key = belljar.NewID()
	}
	var session belljar.Session
	err = s.c.ask(ctx, request{
		method: http.MethodPost, path: route("sessions"), body: body, header: http.Header{"Idempotency-Key": {key}},
	}, &session)
	return session, err
}

// Get returns a session.
func (s sessions) Get(ctx context.Context, id string) (belljar.Session, error) {
	var session belljar.Session
	return session, s.c.get(ctx, &session, nil, "sessions", id)
}

// List returns the caller's sessions.
func (s sessions) List(ctx context.Context, q belljar.SessionQuery) (belljar.SessionPage, error) {
	v := url.Values{}
	if q.All {
		v.Set("all", "true")
	}
	paging(v, q.Limit, q.Offset)
	var page belljar.SessionPage
	return page, s.c.get(ctx, &page, v, "sessions")
}

// Delete ends a session.
func (s sessions) Delete(ctx context.Context, id string) error {
	return s.c.ask(ctx, request{method: http.MethodDelete, path: route("sessions", id)}, nil)
}

// names are what a part of an upload is called so that the server knows what it is.
func names() map[belljar.UploadFormat]string {
	return map[belljar.UploadFormat]string{
		belljar.UploadTar: ".tar", belljar.UploadTarGz: ".tar.gz", belljar.UploadZip: ".zip",
	}
}

// Upload sends files as they are read, as one form. It is not repeated: the server takes all of it or nothing, so the
// caller can.
func (s sessions) Upload(ctx context.Context, id string, u belljar.Upload) (belljar.UploadResult, error) {
	out, in := io.Pipe()
	form := multipart.NewWriter(in)
	go func() {
		err := write(form, u)
		if err == nil {
			err = form.Close()
		}
		in.CloseWithError(err)
	}()
	defer out.Close()
	query := url.Values{}
	if u.Dir != "" {
		query.Set("path", u.Dir)
	}
	var result belljar.UploadResult
	err := s.c.ask(ctx, request{
		method: http.MethodPost, path: route("sessions", id, "files"), query: query, stream: out,
		header: http.Header{"Content-Type": {form.FormDataContentType()}},
	}, &result)
	return result, err
}

// write puts the parts of an upload into a form.
func write(form *multipart.Writer, u belljar.Upload) error {
	for part, err := range u.Parts {
		if err != nil {
			return err
		}
		name := part.Name
		if suffix := names()[part.Format]; suffix != "" {
			name = "upload" + suffix
		}
		w, err := form.CreateFormFile("files", name)
		if err == nil {
			_, err = io.Copy(w, part.Body)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
