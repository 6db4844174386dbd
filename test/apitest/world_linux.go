package apitest

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/blob/spool"
	logs "github.com/belljar/belljar/internal/logbook/memory"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service"
	records "github.com/belljar/belljar/internal/store/memory"
)

// World is the real service on the fake runtime.
type World struct {
	Service *service.Service
	Runtime *fake.Runtime
	Dir     string // the world's own
}

// NewWorld makes a world, with time limits that suit a busy machine. It ends with the test, which fails if a sandbox is
// left.
func NewWorld(tb testing.TB, enforces []string, change ...func(*service.Options)) *World {
	tb.Helper()
	dir := tb.TempDir()
	w := &World{Runtime: fake.New(fake.Options{Dir: dir, Enforces: enforces, Ports: true}), Dir: dir}
	o := service.Options{
		Runtimes: []runtime.Runtime{w.Runtime}, Store: records.New(), Logs: logs.New(), Blobs: &spool.Store{Dir: dir},
		Limits: belljar.Limits{NProc: 4096, StartupTimeoutSec: 300, TimeoutSec: 300, GraceSec: 0.2}, Require: []string{}, TempDir: dir,
	}
	for _, f := range change {
		f(&o)
	}
	var err error
	if w.Service, err = service.New(o); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		err := w.Service.Close()
		left, listed := w.Runtime.List(context.Background())
		if err := errors.Join(err, listed, w.Runtime.Close()); err != nil || len(left) > 0 {
			tb.Errorf("left behind: %v, %v", left, err)
		}
	})
	return w
}

// Serve serves doors with the edge in front until the test ends. A test that fails may leave answers unread: their connections are closed, or
// their handlers would never end.
func Serve(tb testing.TB, edge api.EdgeOptions, doors ...Door) *httptest.Server {
	tb.Helper()
	server := httptest.NewServer(Handler(tb, edge, doors...))
	tb.Cleanup(func() {
		server.Client().CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
	})
	return server
}
