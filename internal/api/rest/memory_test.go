package rest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/rest"
	"github.com/belljar/belljar/test/apitest"
)

// Lists and searches reserve memory neither while their session wakes nor while a slow client reads them.
func TestAnswersReserveMemoryBriefly(t *testing.T) {
	const fs = prefix + "/sessions/" + apitest.ID + "/fs/"
	apitest.CheckMemory(t, func(engine belljar.Engine, bodies *api.Shares) (apitest.Door, error) {
		return rest.New(rest.Options{Engine: engine, Auth: apitest.Callers(), Bodies: bodies})
	}, []apitest.Route{
		{Method: "POST", Path: fs + "list", Body: `{"path": "."}`}, {Method: "POST", Path: fs + "search", Body: `{"path": ".", "name": "a*"}`},
	}...)
}

// Two lists of a user that can be large are read and encoded at the same time. A further one waits until one is encoded, however slow its
// reader is, and is refused after 20 s. Those of other users pass.
func TestListsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &crowd{Service: apitest.Still{}.As(belljar.Caller{}), leave: make(chan struct{})}
		d, err := rest.New(rest.Options{Engine: e, Auth: apitest.Callers()})
		if err != nil {
			t.Fatal(err)
		}
		h := apitest.Handler(t, api.EdgeOptions{}, d)
		reads := make(chan struct{})
		var refused atomic.Int64
		get := func(method, path, user string) {
			r := httptest.NewRequest(method, prefix+path, nil)
			r.Header.Set("X-API-KEY", user)
			w := unread{httptest.NewRecorder(), reads}
			h.ServeHTTP(w, r)
			if w.Code == http.StatusTooManyRequests && strings.Contains(w.Body.String(), `"scope":"lists"`) {
				refused.Add(1)
			}
		}
		is := func(when string, begun int64) {
			t.Helper()
			synctest.Wait()
			if n := e.begun.Load(); n != begun {
				t.Errorf("%s: %d lists are read, want %d", when, n, begun)
			}
		}
		artifacts := "/runs/" + apitest.ID + "/artifacts"
		for range 2 {
			go get("GET", "/runs?limit=200", "alice")
			go get("HEAD", artifacts, "alice")
		}
		is("four of a user", 2)
		go get("GET", artifacts, "bob")
		is("another user's", 3)
		for range 3 {
			e.leave <- struct{}{}
		}
		is("the first are encoded, but not read", 5)
		go get("GET", "/images", "alice")
		time.Sleep(21 * time.Second)
		is("none ends", 5)
		if n := refused.Load(); n != 1 {
			t.Errorf("%d lists are refused, want 1", n)
		}
		close(e.leave)
		close(reads)
	})
}

// unread writes nothing until its client reads.
type unread struct {
	*httptest.ResponseRecorder
	reads chan struct{}
}

func (w unread) Write(b []byte) (int, error) {
	if w.Code != http.StatusTooManyRequests {
		<-w.reads
	}
	return w.ResponseRecorder.Write(b)
}

// crowd is [apitest.Still] with lists that wait, and are counted.
type crowd struct {
	belljar.Service
	begun atomic.Int64
	leave chan struct{}
}

func (e *crowd) As(belljar.Caller) belljar.Service { return e }
func (e *crowd) Runs() belljar.Runs                { return crowdRuns{e.Service.Runs(), e} }
func (e *crowd) Artifacts() belljar.Artifacts      { return crowdArtifacts{e.Service.Artifacts(), e} }
func (e *crowd) Images() belljar.Images            { return crowdImages{e.Service.Images(), e} }

func (e *crowd) wait() {
	e.begun.Add(1)
	<-e.leave
}

type crowdRuns struct {
	belljar.Runs
	*crowd
}

func (r crowdRuns) List(ctx context.Context, q belljar.RunQuery) (belljar.RunPage, error) {
	r.wait()
	return r.Runs.List(ctx, q)
}

type crowdArtifacts struct {
	belljar.Artifacts
	*crowd
}

func (a crowdArtifacts) List(ctx context.Context, run string) ([]belljar.Artifact, error) {
	a.wait()
	return a.Artifacts.List(ctx, run)
}

type crowdImages struct {
	belljar.Images
	*crowd
}

func (i crowdImages) List(ctx context.Context) ([]belljar.Image, error) {
	i.wait()
	return i.Images.List(ctx)
}

// A list or search with invalid arguments does not wake its session.
func TestRefusedBeforeTheSessionIsUsed(t *testing.T) {
	const fs = prefix + "/sessions/" + apitest.ID + "/fs/"
	apitest.CheckRefused(t, func(engine belljar.Engine) (apitest.Door, error) {
		return rest.New(rest.Options{Engine: engine, Auth: apitest.Callers()})
	}, apitest.Route{Method: "POST", Path: fs + "list", Body: `{"path": "../x"}`}, apitest.Route{Method: "POST", Path: fs + "search", Body: `{"name": "["}`})
}
