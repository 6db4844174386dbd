package daemon

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar/internal/runtime"
)

// A Go build cache that could not be made is retried without a restart, but not for each program.
func TestGoCacheAgain(t *testing.T) {
	caches := goCaches(t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		wanted := make(chan runtime.Root)
		d := &server{log: slog.New(slog.DiscardHandler), goImages: wanted}
		var tries []string
		go d.fillEach(ctx, caches, func(image string) error {
			tries = append(tries, image)
			return errors.New("no room")
		})
		want := func(image string, tried int) {
			t.Helper()
			wanted <- runtime.Root{Ref: image}
			synctest.Wait()
			if len(tries) != tried {
				t.Errorf("%v, want %d", tries, tried)
			}
		}
		want("golang:1", 1)
		want("golang:1", 1)
		want("golang:2", 2)
		time.Sleep(refill)
		want("golang:1", 3)
		want("golang:1", 3)
	})
}
