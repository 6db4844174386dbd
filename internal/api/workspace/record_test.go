//go:build linux

package workspace_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/workspace"
	"github.com/belljar/belljar/internal/workspace/sandbox"
	"github.com/belljar/belljar/test/apitest"
)

// writes counts the writes for runs.
type writes struct{ inserts, adds, finishes, logs atomic.Int64 }

func (w *writes) String() string {
	return fmt.Sprint(w.inserts.Swap(0), w.adds.Swap(0), w.finishes.Swap(0), w.logs.Swap(0))
}

type countedStore struct {
	store.Store
	w *writes
}

func (s countedStore) Runs() store.Runs { return countedRuns{s.Store.Runs(), s.w} }

type countedRuns struct {
	store.Runs
	w *writes
}

func (r countedRuns) Insert(ctx context.Context, row store.Run, key *store.Key) (*store.Key, error) {
	r.w.inserts.Add(1)
	return r.Runs.Insert(ctx, row, key)
}

func (r countedRuns) Add(ctx context.Context, row store.Run) error {
	r.w.adds.Add(1)
	return r.Runs.Add(ctx, row)
}

func (r countedRuns) Finish(ctx context.Context, row store.Run) error {
	r.w.finishes.Add(1)
	return r.Runs.Finish(ctx, row)
}

type countedLogs struct {
	logbook.Book
	w *writes
}

func (l countedLogs) Create(id string) (logbook.Log, error) {
	l.w.logs.Add(1)
	return l.Book.Create(id)
}

// patient is a clock for slow machines: no run takes so long that it is recorded before its end.
type patient struct{ clock.Wall }

func (c patient) AfterFunc(d time.Duration, f func()) func() bool {
	if d < time.Second {
		d = patience
	}
	return c.Wall.AfterFunc(d, f)
}

// TestGitIsOneWrite checks what a poll of Git's state leaves on record, and that output beyond what answers have inline is complete.
func TestGitIsOneWrite(t *testing.T) {
	var counted writes
	w := newWorld(t, source{name: "sandbox", key: "alice", open: func(t *testing.T) workspace.Source {
		return &sandbox.Source{Engine: apitest.NewWorld(t, nil, unbounded, func(o *service.Options) {
			o.Store, o.Logs, o.Clock = countedStore{o.Store, &counted}, countedLogs{o.Logs, &counted}, patient{}
		}).Service}
	}})
	w.sh(`git init -q -b main .; printf '\377' > bytes; head -c 3000000 /dev/zero | tr '\000' a > long; git add .; git -c user.name=t -c user.email=t@t commit -qm 1; echo > new`)
	for path, want := range map[string]struct{ body, writes string }{
		"/workspace/api/git/status":         {`{"is_repo":true,"available":true,"files":{"new":"U"}}`, "0 1 0 0"},
		"/workspace/api/git/show?path=none": {`{"content":null,"path":"none","error":"Not in HEAD"}`, "0 1 0 0"},
		"/workspace/api/git/show?path=long": {`{"content":"` + strings.Repeat("a", 3_000_000) + `","path":"long"}`, "0 1 0 1"},
	} {
		_ = counted.String()
		got := w.ask(w.key, "GET", path, "")
		if strings.TrimSpace(got.body) != want.body {
			t.Errorf("%s: %d %.200s", path, got.status, got.body)
		}
		if made := counted.String(); made != want.writes {
			t.Errorf("%s: inserts, adds, finishes and logs are %s", path, made)
		}
	}
}
