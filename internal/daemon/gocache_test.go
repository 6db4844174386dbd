package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/runtime"
)

// A Go build cache that could not be made is retried without a restart, but not for each program.
func TestGoCacheAgain(t *testing.T) {
	caches := goCaches(t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		wanted := make(chan goImage)
		d := &server{log: slog.New(slog.DiscardHandler), goImages: wanted}
		var tries []string
		go d.fillEach(ctx, caches, func(image string) error {
			tries = append(tries, image)
			return errors.New("no room")
		})
		want := func(image string, tried int) {
			t.Helper()
			wanted <- goImage{Root: runtime.Root{Ref: image}}
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

// A user with many images whose caches take long delays the cache of another user by one.
func TestGoCacheUsers(t *testing.T) {
	caches := goCaches(t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		d := &server{log: slog.New(slog.DiscardHandler)}
		want := d.goCache(&config.Config{GoCache: true}, t.TempDir())
		var tries []string
		next := make(chan struct{})
		go d.fillEach(ctx, caches, func(image string) error {
			tries = append(tries, image)
			<-next
			return errors.New("it takes long")
		})
		for i := range 30 {
			want(runtime.Root{Ref: fmt.Sprint("slow:", i)}, "ann", true)
			synctest.Wait()
		}
		want(runtime.Root{Ref: "golang:1"}, "bob", true)
		for range 3 {
			next <- struct{}{}
			synctest.Wait()
			want(runtime.Root{Ref: "slow:2"}, "ann", true)
		}
		synctest.Wait()
		if want := []string{"slow:0", "slow:1", "golang:1", "slow:2"}; !slices.Equal(tries, want) {
			t.Errorf("%q, want %q", tries, want)
		}
		close(next)
	})
}
