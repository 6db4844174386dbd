package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/belljar/belljar"
)

// NoRoute handles requests without a route in mux: 405 with the methods of the path, or 404 with hint if it has none.
func NoRoute(mux *http.ServeMux, hint string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		allowed := methods(mux, r)
		if len(allowed) == 0 {
			Fail(w, r, &belljar.Error{Code: belljar.CodeNotFound, Message: "there is nothing at " + r.URL.Path, Hint: hint})
			return
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		reply(w, r, &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: r.Method + " is not possible here",
			Hint: "use " + strings.Join(allowed, " or "), Details: map[string]any{"allowed": allowed},
		}, http.StatusMethodNotAllowed)
	})
}

// methods lists the methods of the request's path. A GET route serves HEAD too.
func methods(mux *http.ServeMux, r *http.Request) (allowed []string) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		probe := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := mux.Handler(probe); strings.HasPrefix(pattern, method+" ") {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 && allowed[0] == http.MethodGet {
		allowed = slices.Insert(allowed, 1, http.MethodHead)
	}
	return allowed
}
