package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/api"
)

func TestLost(t *testing.T) {
	mux := http.NewServeMux()
	nothing := func(http.ResponseWriter, *http.Request) {}
	mux.HandleFunc("GET /healthz", nothing)
	mux.HandleFunc("GET /things/{id}", nothing)
	mux.HandleFunc("DELETE /things/{id}", nothing)
	mux.HandleFunc("POST /things", nothing)
	mux.Handle("/", api.NoRoute(mux, "look elsewhere"))
	for request, want := range map[string]struct {
		status      int
		allow, body string
	}{
		"GET /healthz":     {200, "", ""},
		"HEAD /healthz":    {200, "", ""},
		"PUT /healthz":     {405, "GET, HEAD", `"message":"PUT is not possible here"`},
		"OPTIONS /healthz": {405, "GET, HEAD", `"hint":"use GET or HEAD"`},
		"BREW /things/1":   {405, "GET, HEAD, DELETE", `"code":"invalid_request"`},
		"HEAD /things":     {405, "POST", ""},
		"GET /nothing":     {404, "", `"hint":"look elsewhere"`},
		"PUT /things/1/2":  {404, "", `"code":"not_found"`},
	} {
		method, path, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if w.Code != want.status || w.Header().Get("Allow") != want.allow || !strings.Contains(w.Body.String(), want.body) {
			t.Errorf("%s: %d, Allow %q: %s; want %+v", request, w.Code, w.Header().Get("Allow"), w.Body, want)
		}
	}
	r := httptest.NewRequest("PUT", "/healthz", nil)
	r.Header.Set("Accept", "application/problem+json")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	if w.Code != 405 || !strings.Contains(w.Body.String(), `"status":405`) {
		t.Errorf("problem: %d %s", w.Code, w.Body)
	}
}
