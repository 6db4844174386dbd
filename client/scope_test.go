//go:build linux

package client_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/belljar/belljar"
)

func scope(id string) belljar.SessionRequest {
	return belljar.SessionRequest{SessionSpec: belljar.SessionSpec{Scope: belljar.Scope{Namespace: "workflow", ID: id}}}
}

func TestScope(t *testing.T) {
	w := newWorld(t, nil)
	c := w.client()
	first, created, err := c.Sessions().Open(within(t), scope("a:b%"))
	if err != nil || !created || first.ScopeKey != "workflow:a%3Ab%25:default" || first.BaseImage != "host" || first.SpecVersion != belljar.SpecVersion {
		t.Fatalf("%v, %+v, %v", created, first, err)
	}
	again, created, err := c.Sessions().Open(within(t), scope("a:b%"))
	if err != nil || created || again.ID != first.ID {
		t.Errorf("%v, %+v, %v", created, again, err)
	}
	other, _, err := c.Sessions().Open(within(t), scope("a"))
	if err != nil || other.ID == first.ID {
		t.Errorf("%+v, %v", other, err)
	}
	page, err := c.Sessions().List(within(t), belljar.SessionQuery{KeyPrefix: belljar.Scope{Namespace: "workflow", ID: "a:b%"}.Prefix()})
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != first.ID {
		t.Errorf("%+v, %v", page, err)
	}
	closed, err := c.Sessions().CloseAll(within(t), belljar.CloseRequest{KeyPrefix: "workflow:a:", RetainSec: 60})
	if err != nil || !slices.Equal(closed, []string{other.ID}) {
		t.Errorf("%v, %v", closed, err)
	}
	if kept, err := c.Sessions().Get(within(t), other.ID); err != nil || kept.State != belljar.SessionActive || kept.ScopeKey != "" {
		t.Errorf("%+v, %v", kept, err)
	}
	if closed, err = c.Sessions().CloseAll(within(t), belljar.CloseRequest{KeyPrefix: "workflow:"}); err != nil || !slices.Equal(closed, []string{first.ID}) {
		t.Errorf("%v, %v", closed, err)
	}
	if closed, err = c.Sessions().CloseAll(within(t), belljar.CloseRequest{KeyPrefix: "workflow:"}); err != nil || len(closed) != 0 {
		t.Errorf("%v, %v", closed, err)
	}
	_, err = c.Sessions().CloseAll(within(t), belljar.CloseRequest{KeyPrefix: "x"})
	want(t, err, belljar.CodeInvalidRequest)
	_, _, err = c.Sessions().Open(within(t), belljar.SessionRequest{})
	want(t, err, belljar.CodeInvalidRequest)
	if _, err := c.Sessions().Create(within(t), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
		SpecVersion: "1.1", BaseImage: "host", Scope: belljar.Scope{Namespace: "user", ID: "u"},
	}}); err != nil {
		t.Error(err)
	}
	req := scope("u")
	req.Scope.Namespace, req.SpecVersion, req.BaseImage = "user", "1.1", "host"
	_, err = c.Sessions().Create(within(t), req)
	var e *belljar.Error
	if want(t, err, belljar.CodeConflict); errors.As(err, &e) && e.Details["session_id"] == "" {
		t.Errorf("%+v", e)
	}
}

// After a lost response the retry gets the same session: created is true, even for an isolated session.
func TestOpenAnswerIsLost(t *testing.T) {
	for _, key := range []string{"", belljar.IsolatedKey} {
		var asked atomic.Int32
		w := newWorld(t, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/sessions/open") && asked.Add(1) == 1 {
					next.ServeHTTP(httptest.NewRecorder(), r)
					panic(http.ErrAbortHandler)
				}
				next.ServeHTTP(rw, r)
			})
		})
		c := w.client()
		req := scope("a")
		req.Scope.Key = key
		s, created, err := c.Sessions().Open(within(t), req)
		if err != nil || !created || s.State != belljar.SessionActive || asked.Load() != 2 {
			t.Errorf("%v, %+v, %v; asked %d times", created, s, err, asked.Load())
		}
		if page, err := c.Sessions().List(within(t), belljar.SessionQuery{}); err != nil || page.Total != 1 {
			t.Errorf("%+v, %v", page, err)
		}
	}
}
