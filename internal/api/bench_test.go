package api_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/belljar/belljar/internal/api"
)

// BenchmarkEdge measures the cost of the edge, the guard and the limits for one request.
func BenchmarkEdge(b *testing.B) {
	limits := api.NewLimits(api.LimitsOptions{PerUser: 1 << 30, PerAddress: 1 << 30})
	edge, err := api.NewEdge(api.EdgeOptions{Limits: limits, Logger: slog.New(slog.NewJSONHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /x/{id}", api.Guard(limits.Guarded(keyIsUser{}), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "{}")
	})))
	h := edge.Wrap(mux)
	r := httptest.NewRequest("GET", "/x/1", nil)
	r.Header.Set("X-API-KEY", "ann")
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
}
