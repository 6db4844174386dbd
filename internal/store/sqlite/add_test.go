package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

func ended(n int) store.Run {
	at := time.Date(2026, 3, 1, 12, 0, 0, n*1000, time.UTC)
	return store.Run{
		Run: belljar.Run{
			ID: fmt.Sprintf("run-%05d", n), UserID: "ann", Phase: belljar.PhaseCompleted, Runtime: "native", BaseImage: "host",
			CreatedAt: at, StartedAt: &at, FinishedAt: &at, ExitCode: new(0), ResourceUsage: &belljar.ResourceUsage{ArtifactBytes: 3},
		},
		LastSeq: 4, Log: []byte("the log"),
	}
}

func add(t *testing.T, s store.Store, n int) {
	t.Helper()
	if err := s.Runs().Add(t.Context(), ended(n)); err != nil {
		t.Fatal(err)
	}
}

// copyOf copies a store's files as a killed process leaves them.
func copyOf(t *testing.T, path string) string {
	t.Helper()
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, filepath.Base(path))
}

// TestAdd checks that added runs are visible to every reader, and to the next process after a kill.
func TestAdd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	for n := range 5 {
		add(t, s, n)
	}
	for _, each := range []store.Store{s, open(t, copyOf(t, path))} {
		page, total, err := each.Runs().List(t.Context(), belljar.RunQuery{Sort: "created_at:asc"})
		if err != nil || total != 5 || len(page) != 5 {
			t.Fatalf("%d of %d, %v", len(page), total, err)
		}
		for n := range 5 {
			r, err := each.Runs().Get(t.Context(), ended(n).ID)
			if err != nil || string(r.Log) != "the log" || r.LastSeq != 4 || !r.FinishedAt.Equal(*ended(n).FinishedAt) {
				t.Errorf("%+v, %v", r, err)
			}
		}
		if u, err := each.Users().Usage(t.Context(), "ann", time.Now()); err != nil || u.ArtifactBytes != 15 {
			t.Errorf("%+v, %v", u, err)
		}
	}
}

// TestAddMany checks that concurrent Adds lose no run and store none twice.
func TestAddMany(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store.db"))
	const each, clients = 300, 8
	var all sync.WaitGroup
	for range 2 { // adding a run again changes nothing
		for c := range clients {
			all.Go(func() {
				for n := range each {
					if err := s.Runs().Add(t.Context(), ended(c*each+n)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	if u, err := s.Users().Usage(t.Context(), "ann", time.Now()); err != nil || u.ArtifactBytes != 3*each*clients {
		t.Errorf("%+v, %v", u, err)
	}
	if _, total, err := s.Runs().List(t.Context(), belljar.RunQuery{}); err != nil || total != each*clients {
		t.Errorf("%d runs, %v", total, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Runs().Add(t.Context(), ended(0)); !errors.Is(err, store.ErrClosed) {
		t.Errorf("added to a closed store: %v", err)
	}
}
