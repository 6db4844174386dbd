package apitest

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// CheckMemory sends requests of alice, which answer 200, to a door with [Still]. None of them may reserve anything of her share when it waits
// for its session, which is at its first use of a file, or for the reader of its answer.
func CheckMemory(t *testing.T, door func(engine belljar.Engine, bodies *api.Shares) (Door, error), routes ...Route) {
	t.Helper()
	const share = 32 << 20
	bodies, waits := api.NewShares(share, 0), 0
	free := func(to Route, when string) {
		if release, err := bodies.Take(t.Context(), "alice", share); err != nil {
			t.Errorf("%s %s reserves memory while %s", to.Method, to.Path, when)
		} else {
			release()
		}
	}
	var to Route
	engine := waking{func() {
		if waits++; waits == 1 {
			free(to, "its session wakes")
		}
	}}
	d, err := door(engine, bodies)
	if err != nil {
		t.Fatal(err)
	}
	h := Handler(t, api.EdgeOptions{}, d)
	for _, to = range routes {
		r := httptest.NewRequest(to.Method, to.Path, strings.NewReader(to.Body))
		r.Header.Set("Authorization", "Bearer alice")
		r.Header.Set("Idempotency-Key", "k")
		w := slowWriter{recorder{httptest.NewRecorder()}, func() { free(to, "its answer is written") }}
		waits = 0
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK || w.Body.Len() == 0 {
			t.Errorf("%s %s: %d %s", to.Method, to.Path, w.Code, w.Body)
		}
	}
}

// slowWriter calls writes while it writes.
type slowWriter struct {
	recorder
	writes func()
}

func (w slowWriter) Write(b []byte) (int, error) {
	w.writes()
	return w.recorder.Write(b)
}

// waking is [Still] with a session that wakes: each use of a file waits for it.
type waking struct{ wait func() }

func (e waking) As(belljar.Caller) belljar.Service { return wakingService{still{}, e.wait} }

type wakingService struct {
	still
	wait func()
}

func (s wakingService) Files() belljar.Files { return wakingFiles{files{}, s.wait} }

type wakingFiles struct {
	files
	wait func()
}

func (f wakingFiles) Read(ctx context.Context, id, path string, offset, limit int64) (belljar.FileEntry, io.ReadCloser, error) {
	f.wait()
	return f.files.Read(ctx, id, path, offset, limit)
}

func (f wakingFiles) Stat(ctx context.Context, id, path string) (belljar.FileEntry, error) {
	f.wait()
	return f.files.Stat(ctx, id, path)
}

func (f wakingFiles) List(ctx context.Context, id string, q belljar.FileQuery) (belljar.FileList, error) {
	f.wait()
	q.Path = cmp.Or(q.Path, ".") // as in the service
	if q.Ready != nil {
		if err := q.Ready(); err != nil {
			return belljar.FileList{}, err
		}
	}
	return f.files.List(ctx, id, q)
}

func (f wakingFiles) Search(ctx context.Context, id string, q belljar.FileSearch) (belljar.FileMatches, error) {
	f.wait()
	if q.Ready != nil {
		if err := q.Ready(); err != nil {
			return belljar.FileMatches{}, err
		}
	}
	return f.files.Search(ctx, id, q)
}
