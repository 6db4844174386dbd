package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/belljar/belljar"
)

// ReadBody reads a request's whole body, at most limit bytes, and counts it in the caller's share; nil Shares count
// nothing. Call give to release the share once the bytes are no longer needed. Errors are [belljar.Error]s, or the
// error of the request's context.
func (s *Shares) ReadBody(w http.ResponseWriter, r *http.Request, limit int64) (data []byte, give func(), err error) {
	if err := CheckEncoding(r, "send the body as it is"); err != nil {
		return nil, nil, err
	}
	LimitBody(w, r, limit)
	user, n := CallerOf(r.Context()).ID, int64(0)
	if s != nil {
		n = min(BodySize(r.ContentLength, limit), s.limit)
		if err := s.reserve(r.Context(), user, n); err != nil {
			return nil, nil, err
		}
	}
	if data, err = io.ReadAll(r.Body); err != nil {
		s.release(user, n)
		return nil, nil, BodyError(err, limit)
	}
	kept := min(int64(len(data)), n)
	s.release(user, n-kept) // a body without a length has reserved the limit
	return data, sync.OnceFunc(func() { s.release(user, kept) }), nil
}

// smallMessage is the size, in bytes, up to which a message counts in no share.
const smallMessage = 64 << 10

// ReadMessage reads a message without a known length, at most limit bytes, which r enforces. Above [smallMessage], the message counts in the
// user's share: as the limit while it is unfinished, then as its size until give is called. Errors are [belljar.CodeRateLimited], or those
// of ctx or r.
func (s *Shares) ReadMessage(ctx context.Context, user string, r io.Reader, limit int64) (data []byte, give func(), err error) {
	var message bytes.Buffer
	if n, err := message.ReadFrom(io.LimitReader(r, smallMessage)); err != nil || n < smallMessage {
		return message.Bytes(), func() {}, err
	}
	n := min(limit, s.limit)
	if err := s.reserve(ctx, user, n); err != nil {
		return nil, nil, err
	}
	if _, err = message.ReadFrom(r); err != nil {
		s.release(user, n)
		return nil, nil, err
	}
	kept := min(int64(message.Len()), n)
	s.release(user, n-kept)
	return message.Bytes(), func() { s.release(user, kept) }, nil
}

// CheckEncoding refuses a request with a Content-Encoding: the door would store or decode the compressed bytes.
func CheckEncoding(r *http.Request, hint string) error {
	coding := r.Header.Get("Content-Encoding")
	if coding == "" || strings.EqualFold(coding, "identity") {
		return nil
	}
	e := Refuse("Content-Encoding", "content encoding %.40q is not supported", coding)
	e.Hint = hint
	return e
}

// BodyError returns the error for a body that could not be read. limit is its maximum size in bytes.
func BodyError(err error, limit int64) error {
	var own *belljar.Error
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &long):
		return &belljar.Error{
			Code: belljar.CodeTooLarge, Message: "the body is too large",
			Details: map[string]any{"field": "body", "maximum": limit},
		}
	}
	return &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "the body ended early", Err: err}
}

// CheckJSON returns an error if the Content-Type is set and is not JSON.
func CheckJSON(r *http.Request) error {
	given := r.Header.Get("Content-Type")
	if given == "" {
		return nil
	}
	media, params, err := mime.ParseMediaType(given)
	charset := strings.ToLower(params["charset"])
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") || charset != "" && charset != "utf-8" {
		return WrongType(given, "application/json")
	}
	return nil
}

// WrongType returns the error for an unsupported media type.
func WrongType(given string, supported ...string) error {
	e := Refuse("Content-Type", "content type %.100q is not supported", given)
	e.Details["provided"], e.Details["supported"] = given, supported
	e.Hint = "send Content-Type: " + supported[0]
	return e
}

// Query parses the query parameters. Unknown and repeated parameters are errors.
func Query(r *http.Request, known ...string) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, Refuse("", "the query cannot be read: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(known, name) {
			return nil, Unknown("query parameter", name, name, known)
		}
		if len(query[name]) > 1 {
			return nil, Refuse(name, "%s is given twice", name)
		}
	}
	return query, nil
}
