package sqlite_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// TestSearchSizes searches with few and with many matches, and with more images than a search compares by name. Each
// case takes a different path.
func TestSearchSizes(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store.db"))
	add := func(from, to int, image func(int) string) {
		var group sync.WaitGroup
		for w := range 50 {
			group.Go(func() {
				for i := from + w; i < to; i += 50 {
					r := store.Run{Run: belljar.Run{ID: fmt.Sprint("r", i), UserID: "ann", Phase: belljar.PhaseQueued, CreatedAt: time.Unix(int64(i), 0), BaseImage: image(i)}}
					if i%3 == 0 {
						r.Message = fmt.Sprintf("Step %d of the host", i)
					}
					if _, err := s.Runs().Insert(t.Context(), r, nil); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
	}
	add(0, 90, func(int) string { return "Host" })
	searched(t, s, map[string]int{"host": 90, "STEP": 30, "step 3 ": 1, "nothing": 0, "image": 0})
	add(90, 2100, func(int) string { return "Host" })
	searched(t, s, map[string]int{"host": 2100, "STEP": 700, "step 3 ": 1, "nothing": 0, "image": 0})
	add(2100, 3150, func(i int) string { return fmt.Sprint("image", i) })
	searched(t, s, map[string]int{"host": 2450, "STEP": 1050, "step 3 ": 1, "nothing": 0, "image": 1050})
}

// searched checks how many runs each search finds, and that its pages list each run once.
func searched(t *testing.T, s store.Store, searches map[string]int) {
	t.Helper()
	for q, want := range searches {
		for _, sort := range []string{"created_at:desc", "started_at:asc"} {
			seen := map[string]bool{}
			for offset := 0; offset <= want; offset += 700 {
				page, total, err := s.Runs().List(t.Context(), belljar.RunQuery{Q: q, Sort: sort, Limit: 700, Offset: offset})
				if err != nil || total != want {
					t.Errorf("search for %q by %s from %d: %d in all, error %v, want %d", q, sort, offset, total, err, want)
				}
				for _, r := range page {
					seen[r.ID] = true
				}
			}
			if len(seen) != want {
				t.Errorf("search for %q by %s: %d runs on its pages, want %d", q, sort, len(seen), want)
			}
		}
	}
}
