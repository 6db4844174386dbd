//go:build linux

package thread_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/thread"
)

// Uploads cannot fill the server's disk, and an upload without a session is refused immediately.
func TestUploadNeedsRoom(t *testing.T) {
	var full atomic.Bool
	var asked atomic.Int64
	w := newWorld(t, func(o *thread.Options) {
		o.Room = func(_ context.Context, user string) error {
			if user == "" {
				t.Error("of no user")
			}
			if asked.Add(1); full.Load() {
				return &belljar.Error{Code: belljar.CodeDiskFull, Message: "the disk has 1 MiB left"}
			}
			return nil
		}
	})
	id, data := w.open("t"), strings.Repeat("x", 200<<10)
	w.upload(field{"file", "a", data}, field{"session_id", "", id}).want(t, http.StatusOK, nil)
	if asked.Load() < 2 {
		t.Errorf("asked %d times", asked.Load())
	}
	asked.Store(0)
	w.upload(field{"session_id", "", "nobody's"}, field{"file", "b", data}).want(t, http.StatusNotFound, map[string]any{
		"error": "Invalid or expired session", "session_id": "nobody's",
	})
	if asked.Load() != 0 {
		t.Error("a file for no session was taken")
	}
	full.Store(true)
	w.upload(field{"file", "c", data}, field{"session_id", "", id}).want(t, http.StatusInsufficientStorage, map[string]any{
		"error": "the disk has 1 MiB left", "code": "disk_full",
	})
}

// Lists of files share memory with the user's other answers before they are read.
func TestListsShareMemory(t *testing.T) {
	bodies := api.NewShares(32<<20, 0)
	w := newWorld(t, func(o *thread.Options) { o.Bodies = bodies })
	id := w.open("t")
	release, err := bodies.Take(t.Context(), "alice", 31<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"list_files?session_id=" + id, "get_session?thread_id=t"} {
		w.get(path).want(t, http.StatusTooManyRequests, nil)
	}
	release()
	for _, path := range []string{"list_files?session_id=" + id, "get_session?thread_id=t"} {
		w.get(path).want(t, http.StatusOK, nil)
	}
}
