//go:build linux

package auth_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
)

// holder returns a function that begins requests. Each lasts until its context ends, at the latest with the test.
func holder(t *testing.T, w *world) func(credential string) context.Context {
	ctx, stop := context.WithCancel(t.Context())
	var requests sync.WaitGroup
	t.Cleanup(func() {
		stop()
		requests.Wait()
	})
	return func(credential string) context.Context {
		r := httptest.NewRequestWithContext(ctx, "GET", "/hold", nil)
		r.Header.Set("Authorization", "Bearer "+credential)
		requests.Go(func() { w.handler.ServeHTTP(httptest.NewRecorder(), r) })
		return <-w.held
	}
}

// wantEnd waits for the end of a request that its credential causes.
func wantEnd(t *testing.T, name string, request context.Context) {
	t.Helper()
	<-request.Done()
	if got := belljar.CodeOf(context.Cause(request)); got != belljar.CodeUnauthorized {
		t.Errorf("%s: %s", name, got)
	}
}

// Requests end when their credential, or its parent, expires. A JWT is checked only when a request begins.
func TestExpiredRequestsEnd(t *testing.T) {
	w := newWorld(t)
	hold := holder(t, w)
	key, _ := w.key("ann", 60)
	other, _ := w.key("ann", 3600)
	made, _ := w.signIn("key", key)
	jwt := w.jwt(jwtSecret, time.Minute, nil)
	madeOfJWT, _ := w.signIn("key", jwt)
	ended := map[string]context.Context{"a key": hold(key), "its sign-in": hold(made), "the sign-in of a JWT": hold(madeOfJWT)}
	lasting := map[string]context.Context{"another key": hold(other), "a JWT": hold(jwt), "the operator's key": hold(operator)}
	w.pass(time.Minute)
	for name, request := range ended {
		wantEnd(t, name, request)
	}
	for name, request := range lasting {
		if request.Err() != nil {
			t.Errorf("%s ended, too", name)
		}
	}
	w.wantUser(other, "ann")
	w.pass(time.Hour)
	wantEnd(t, "another key", lasting["another key"])
}

// Requests end with their credential and with its parent. Other requests continue.
func TestRevokedRequestsEnd(t *testing.T) {
	w := newWorld(t)
	hold := holder(t, w)
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
	wantEnd(t, "signed out", of["first"])
	wantEnd(t, "signed out, too", again)
	for _, name := range []string{"key", "other", "second", "operator"} {
		if of[name].Err() != nil {
			t.Errorf("%s ended with another sign-in", name)
		}
	}
	if err := w.service.As(service.Local()).Admin().RevokeToken(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	wantEnd(t, "revoked", of["key"])
	wantEnd(t, "made with a revoked key", of["second"])
	for _, name := range []string{"other", "operator"} {
		if of[name].Err() != nil {
			t.Errorf("%s ended with another key", name)
		}
	}
}
