//go:build linux

package auth_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

// Requests end with their credential, and with the one that it was made with; other requests
// continue.
func TestRevokedRequestsEnd(t *testing.T) {
	w := newWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	var requests sync.WaitGroup
	t.Cleanup(func() {
		stop()
		requests.Wait()
	})
	hold := func(credential string) context.Context {
		r := httptest.NewRequestWithContext(ctx, "GET", "/hold", nil)
		r.Header.Set("Authorization", "Bearer "+credential)
		requests.Go(func() { w.handler.ServeHTTP(httptest.NewRecorder(), r) })
		return <-w.held
	}
	wantEnd := func(name string, request context.Context) {
		t.Helper()
		<-request.Done()
		if got := belljar.CodeOf(context.Cause(request)); got != belljar.CodeUnauthorized {
			t.Errorf("%s: %s", name, got)
		}
	}
	key, id := w.key("ann", 0)
	other, _ := w.key("ann", 0)
	first, _ := w.signIn("key", key)
	second, _ := w.signIn("key", key)
	of := map[string]context.Context{}
	for name, credential := range map[string]string{"key": key, "other": other, "first": first, "second": second, "operator": operator} {
		of[name] = hold(credential)
	}
	again := hold(first)

	if status, answer := w.ask("DELETE", login, first, ""); status != http.StatusNoContent {
		t.Fatalf("sign-out: %d %v", status, answer)
	}
	wantEnd("signed out", of["first"])
	wantEnd("signed out, too", again)
	for _, name := range []string{"key", "other", "second", "operator"} {
		if of[name].Err() != nil {
			t.Errorf("%s ended with another sign-in", name)
		}
	}
	if err := w.service.As(service.Local()).Admin().RevokeToken(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	wantEnd("revoked", of["key"])
	wantEnd("made with a revoked key", of["second"])
	for _, name := range []string{"other", "operator"} {
		if of[name].Err() != nil {
			t.Errorf("%s ended with another key", name)
		}
	}
}
