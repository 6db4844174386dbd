package rest_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/api/rest"
	"github.com/belljar/belljar/test/apitest"
)

// BenchmarkStart measures the door's part of a request to start a run, without network and service.
func BenchmarkStart(b *testing.B) {
	w := newWorld()
	door, err := rest.New(rest.Options{Engine: w, Auth: apitest.Callers()})
	if err != nil {
		b.Fatal(err)
	}
	h := door.Handler()
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest("POST", prefix+"/runs", strings.NewReader(`{"spec_version": "1.0", "base_image": "host", "command": ["/bin/true"], "env": {"A": "b"}}`))
		r.Header.Set("X-API-KEY", "alice")
		r.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		if answer.Code != 200 {
			b.Fatal(answer.Body)
		}
	}
}

// BenchmarkNew measures the door's part of the daemon's start.
func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := rest.New(rest.Options{Engine: newWorld(), Auth: apitest.Callers()}); err != nil {
			b.Fatal(err)
		}
	}
}
