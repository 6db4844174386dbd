package client

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"

	"github.com/belljar/belljar"
)

// Upload streams files as one form. It is not retried. The server stores all of it or nothing, so the caller can retry.
func (s sessions) Upload(ctx context.Context, id string, u belljar.Upload) (belljar.UploadResult, error) {
	out, in := io.Pipe()
	form := multipart.NewWriter(in)
	written := make(chan error, 1)
	go func() {
		err := write(form, u)
		if err == nil {
			err = form.Close()
		}
		in.CloseWithError(err)
		written <- err
	}()
	query := url.Values{}
	if u.Dir != "" {
		query.Set("dir", u.Dir)
	}
	var result belljar.UploadResult
	err := s.c.ask(ctx, request{
		method: http.MethodPost, path: route("sessions", id, "files"), query: query, stream: own{out}, longer: startup(0),
		// The server checks the session before it requests the body.
		header: http.Header{"Content-Type": {form.FormDataContentType()}, "Expect": {"100-continue"}},
	}, &result)
	_ = out.CloseWithError(errEnough) // the rest is not read
	select {
	case unread := <-written: // so that the caller's files are no longer read after Upload returns
		if unread != nil && !errors.Is(unread, errEnough) && ctx.Err() == nil {
			err = unread
			var own *belljar.Error
			if !errors.As(unread, &own) {
				err = &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "the upload cannot be read", Err: unread}
			}
		}
	case <-ctx.Done():
	}
	if err != nil {
		return belljar.UploadResult{}, err
	}
	return result, nil
}

var errEnough = errors.New("the server stopped reading the upload")

// write writes the parts of an upload as a form.
func write(form *multipart.Writer, u belljar.Upload) error {
	for part, err := range u.Parts {
		if err != nil {
			return err
		}
		if err := writePart(form, part); err != nil {
			return err
		}
	}
	return nil
}

// archives are the file name suffixes that mark an archive for the server.
func archives() map[belljar.UploadFormat]string {
	return map[belljar.UploadFormat]string{
		belljar.UploadTar: ".tar", belljar.UploadTarGz: ".tar.gz", belljar.UploadZip: ".zip",
	}
}

func writePart(form *multipart.Writer, part belljar.UploadPart) error {
	name := part.Name
	suffix := archives()[part.Format]
	lower := strings.ToLower(name)
	// The server would unpack a plain file with an archive's name, so the file is sent within an archive. The same applies to a name
	// with a line break, which a form would change, so that the server can refuse it.
	boxed := suffix == "" && (strings.HasSuffix(lower, ".tgz") || strings.HasSuffix(lower, ".tar") ||
		strings.HasSuffix(lower, ".tar.gz") || strings.HasSuffix(lower, ".zip") || strings.ContainsAny(name, "\r\n"))
	switch {
	case boxed:
		name = "upload.zip"
	case suffix != "":
		name = "upload" + suffix
	}
	w, err := form.CreateFormFile("files", name)
	if err != nil {
		return err
	}
	if boxed {
		return box(w, part)
	}
	_, err = io.Copy(w, part.Body)
	return err
}

// box writes one file as a zip archive, which unlike tar does not need the size first.
func box(w io.Writer, part belljar.UploadPart) error {
	z := zip.NewWriter(w)
	name := part.Name
	if clean, err := belljar.CleanPath(name); err == nil { // otherwise the server returns the error
		name = clean
	}
	h := &zip.FileHeader{Name: name, Method: zip.Store}
	h.SetMode(0o644)
	in, err := z.CreateHeader(h)
	if err != nil {
		return err
	}
	if _, err := io.Copy(in, part.Body); err != nil {
		return err
	}
	return z.Close()
}
