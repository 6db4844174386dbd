package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/belljar/belljar/internal/api"
)

// A request with too many headers is refused before any door: they would take memory while it runs.
func TestManyHeaders(t *testing.T) {
	served := 0
	s := api.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }), nil)
	for n, want := range map[int]int{256: http.StatusOK, 257: http.StatusRequestHeaderFieldsTooLarge} {
		r := httptest.NewRequest("GET", "/openapi.json", nil)
		for i := range n {
			r.Header.Set(fmt.Sprintf("X-%d", i), "")
		}
		w := httptest.NewRecorder()
		s.Handler.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%d headers: %d, want %d", n, w.Code, want)
		}
	}
	if served != 1 {
		t.Errorf("%d requests are served, want 1", served)
	}
}
