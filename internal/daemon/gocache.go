package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/gocache"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/user"
)

// goCaches returns the Go build caches in a data folder.
func goCaches(data string) *gocache.Store { return gocache.New(filepath.Join(data, "go-cache")) }

// FillGoCache builds Go's standard library in an image and keeps the result in the data folder of this machine's commands.
func (h *Host) FillGoCache(ctx context.Context, engine belljar.Service, image string) error {
	cfg, err := config.Load(config.Sources{Env: h.Env})
	if err != nil {
		return err
	}
	data, err := localData(h, &cfg)
	if err != nil {
		return err
	}
	_, err = goCaches(data).Fill(ctx, engine, image)
	return err
}

// goCache returns the service's function for Go build caches in the data folder, or nil if the operator disables them. It fills
// a missing cache in the background, and retries a failed one after some time.
func (d *server) goCache(cfg *config.Config, data string) func(image runtime.Root, user string, want bool) string {
	if !cfg.GoCache {
		return nil
	}
	caches := goCaches(data)
	d.goImages = make(chan goImage, 16)
	return func(image runtime.Root, user string, want bool) string {
		dir := caches.Folder(image.Ref, image.Digest)
		if dir == "" && want {
			d.wantGoCache(goImage{image, user})
		}
		return dir
	}
}

// goImage is an image that needs a Go build cache, and the user who needs it first.
type goImage struct {
	runtime.Root
	user string
}

// wantGoCache requests a cache. One image of each user waits, so that many slow ones of one user do not delay those of others.
func (d *server) wantGoCache(image goImage) {
	if _, waits := d.goUsers.LoadOrStore(image.user, nil); waits {
		return // a later program requests it again
	}
	select {
	case d.goImages <- image:
	default: // the queue is full
		d.goUsers.Delete(image.user)
	}
}

// refill is the pause before a failed Go build cache is retried: an image may get a Go, or a full disk room.
const refill = time.Hour

// fillGoCaches fills the requested caches, one at a time, until the server ends.
func (d *server) fillGoCaches(data string, users store.Users) {
	if d.goImages == nil {
		return
	}
	caches := goCaches(data)
	own := d.service.As(belljar.Caller{ID: user.Server, Role: belljar.RoleAdmin, Source: "server"})
	d.background(func(ctx context.Context) {
		d.fillEach(ctx, caches, users, func(image string) (float64, error) { return caches.Fill(ctx, own, image) })
	})
}

// fillEach calls fill for the requested caches that are missing, and not again for some time after a failure. It charges the user whose program
// needs a cache first for the CPU seconds, as for packages: an image's go command may be any program.
func (d *server) fillEach(ctx context.Context, caches *gocache.Store, users store.Users, fill func(image string) (float64, error)) {
	failed := map[string]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case image := <-d.goImages:
			d.goUsers.Delete(image.user)
			key := image.Ref + " " + image.Digest
			if at, ok := failed[key]; ok && time.Since(at) < refill || caches.Folder(image.Ref, image.Digest) != "" { // it was requested twice
				continue
			}
			delete(failed, key)
			cpu, err := fill(image.Ref)
			if no := users.Charge(context.WithoutCancel(ctx), image.user, store.Charge{CPUSeconds: cpu}, time.Now()); no != nil {
				d.log.Warn("the usage of a Go build cache cannot be recorded", "user_id", image.user, "err", no)
			}
			if err != nil || caches.Folder(image.Ref, image.Digest) == "" { // its name now refers to another image
				failed[key] = time.Now()
			}
			if err != nil && ctx.Err() == nil && !errors.Is(err, gocache.ErrNoGo) {
				d.log.Warn("a Go build cache could not be made: Go programs start slowly", "image", image.Ref, "err", err)
			}
		}
	}
}
