package sqlite_test

import (
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/store/sqlite"
	"github.com/belljar/belljar/internal/store/storetest"
)

// open opens the store at path.
func open(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStore(t *testing.T) {
	var paths sync.Map
	at := func(t *testing.T, path string) store.Store {
		s := open(t, path)
		paths.Store(store.Store(s), path)
		return s
	}
	storetest.Run(t, storetest.Options{
		Open: func(t *testing.T) store.Store { return at(t, filepath.Join(t.TempDir(), "store.db")) },
		Reopen: func(t *testing.T, s store.Store) store.Store {
			path, _ := paths.Load(s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return at(t, path.(string))
		},
	})
}
