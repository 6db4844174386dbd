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
	"github.com/belljar/belljar/internal/store/memory"
)

// A Go build cache that could not be made is retried without a restart, but not for each program. Its user pays for each try.
func TestGoCacheAgain(t *testing.T) {
	caches, users := goCaches(t.TempDir()), memory.New().Users()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		wanted := make(chan goImage)
		d := &server{log: slog.New(slog.DiscardHandler), goImages: wanted}
		var tries []string
		go d.fillEach(ctx, caches, users, func(image string) (float64, error) {
			tries = append(tries, image)
			return 1.5, errors.New("no room")
		})
		want := func(image string, tried int) {
			t.Helper()
			wanted <- goImage{Root: runtime.Root{Ref: image}, user: "ann"}
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
		if used, err := users.Usage(ctx, "ann", time.Now()); err != nil || used.CPUSecondsToday != 4.5 {
			t.Errorf("charged %v s, %v", used.CPUSecondsToday, err)
		}
	})
}

// A user with many images whose caches take long delays the cache of another user by one.
func TestGoCacheUsers(t *testing.T) {
	caches, users := goCaches(t.TempDir()), memory.New().Users()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		d := &server{log: slog.New(slog.DiscardHandler)}
		want := d.goCache(&config.Config{GoCache: true}, t.TempDir())
		var tries []string
		next := make(chan struct{})
		go d.fillEach(ctx, caches, users, func(image string) (float64, error) {
			tries = append(tries, image)
			<-next
			return 0, errors.New("it takes long")
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
