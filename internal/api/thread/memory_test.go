package thread_test

import (
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/thread"
	"github.com/belljar/belljar/test/apitest"
)

// A list of files reserves memory neither while its session wakes nor while a slow client reads it.
func TestAnswersReserveMemoryBriefly(t *testing.T) {
	guard, err := thread.NewGuard(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	apitest.CheckMemory(t, func(engine belljar.Engine, bodies *api.Shares) (apitest.Door, error) {
		return thread.New(thread.Options{Engine: engine, Auth: apitest.Callers(), Guard: guard, Image: "host", TempDir: t.TempDir(), Bodies: bodies})
	}, apitest.Route{Method: "GET", Path: "/thread/list_files?session_id=" + apitest.ID})
}
