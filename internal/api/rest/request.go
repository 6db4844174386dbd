package rest

import (
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// readJSON reads a request's body, which says that it is JSON or says nothing.
func readJSON(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if given := r.Header.Get("Content-Type"); given != "" {
		media, params, err := mime.ParseMediaType(given)
		charset := strings.ToLower(params["charset"])
		if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") || charset != "" && charset != "utf-8" {
			return nil, wrongType(given, "application/json")
		}
	}
	api.LimitBody(w, r, maxBody)
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, unread(err, maxBody)
	}
	return data, nil
}

// wrongType is a body of a media type that the route does not take.
func wrongType(given string, supported ...string) error {
	e := refuse("Content-Type", "content type %.100q is not taken here", given)
	e.Details["provided"], e.Details["supported"] = given, supported
	e.Hint = "send Content-Type: " + supported[0]
	return e
}

// unread is why a body could not be read.
func unread(err error, limit int64) error {
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

// queryNames are the query parameters of an operation.
func queryNames(op *huma.Operation) []string {
	names := []string{}
	for _, p := range op.Parameters {
		if p.In == "query" {
			names = append(names, p.Name)
		}
	}
	return names
}

// checkQuery refuses parameters that the route does not know and that are given twice.
func checkQuery(r *http.Request, known []string) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return refuse("", "the query cannot be read: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(known, name) {
			return unknown("query parameter", name, name, known)
		}
		if len(query[name]) > 1 {
			return refuse(name, "%s is given twice", name)
		}
	}
	return nil
}

// Straight refuses paths that do not go straight to where they lead: with dot segments or empty ones, which a mux
// would answer with a redirection to somewhere else.
func Straight(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		if strings.HasPrefix(path, api.Prefix) {
			for segment := range strings.SplitSeq(path[1:], "/") {
				if segment == "" || segment == "." || segment == ".." {
					api.Fail(w, r, refuse("path", "the path has an empty or a dot segment"))
					return
				}
			}
		}
		next.ServeHTTP(w, r)
	})
}
