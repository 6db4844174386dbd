package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/gocache"
	"github.com/belljar/belljar/internal/runtime"
)

// goCaches are the Go build caches in a data folder.
func goCaches(data string) *gocache.Store { return gocache.New(filepath.Join(data, "go-cache")) }

// goCache is the service's way to the Go build caches in the data folder; nil if the operator wants none. The cache of an
// image that is wanted and not there is filled in the background, once.
func (d *daemon) goCache(cfg *config.Config, data string) func(runtime.Root, bool) string {
	if !cfg.GoCache {
		return nil
	}
	caches := goCaches(data)
	wanted := make(chan runtime.Root, 16)
	d.goImages = wanted
	return func(image runtime.Root, want bool) string {
		dir := caches.Folder(image.Ref, image.Digest)
		if dir == "" && want {
			select {
			case wanted <- image:
			default: // a later program wants it again
			}
		}
		return dir
	}
}

// fillGoCaches fills the caches that runs want, one at a time, until the server ends.
func (d *daemon) fillGoCaches(data string) {
	if d.goImages == nil {
		return
	}
	caches := goCaches(data)
	own := d.service.As(belljar.Caller{ID: "server", Role: belljar.RoleAdmin, Source: "server"})
	d.behind(func(ctx context.Context) {
		tried := map[string]bool{}
		for {
			select {
			case <-ctx.Done():
				return
			case image := <-d.goImages:
				key := image.Ref + " " + image.Digest
				if tried[key] {
					continue
				}
				tried[key] = true
				err := caches.Fill(ctx, own, image.Ref)
				if err != nil && ctx.Err() == nil && !errors.Is(err, gocache.ErrNoGo) {
					d.log.Warn("a Go build cache could not be made: Go programs start slowly", "image", image.Ref, "err", err)
				}
			}
		}
	})
}

// imageGoCache is belljar image go-cache.
type imageGoCache struct {
	Ref string `arg:"" optional:"" default:"host" name:"image" help:"Such as golang:1.26 (default host: this machine's own Go)."`
}

// Run fills the cache of one image, or fills it again for another version of Go.
func (i *imageGoCache) Run(ctx context.Context, c *console) (err error) {
	if c.server.given() {
		return mistake("a server makes them itself when a first Go program runs", "image go-cache is for commands without a server")
	}
	cfg, err := config.Load(config.Sources{Env: c.env})
	if err != nil {
		return err
	}
	data, err := ownData(c, &cfg)
	if err != nil {
		return err
	}
	c.wants = i.Ref
	e, err := c.open("", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	ctx, stopped := interruptible(ctx)
	c.note("building Go's standard library in image %s, for about a minute", i.Ref)
	return stopped(goCaches(data).Fill(ctx, e.Service, i.Ref))
}
