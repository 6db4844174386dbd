package daemon

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/user"
)

// prepull pulls the configured images in the background, and then fills the pools that need them.
func (d *server) prepull(cfg *config.Config) {
	if len(cfg.ImagePrepull) == 0 {
		return
	}
	for _, ref := range disallowed(cfg) {
		d.log.Warn("SANDBOX_IMAGE_PREPULL has an image that SANDBOX_ALLOWED_IMAGES excludes: no request can name it", "image", ref)
	}
	images := d.service.As(belljar.Caller{ID: user.Server, Role: belljar.RoleAdmin, Source: "server"}).Images()
	d.background(func(ctx context.Context) {
		for _, ref := range cfg.ImagePrepull {
			if _, err := images.Pull(ctx, belljar.ImagePull{Ref: ref}, nil); err != nil && ctx.Err() == nil {
				d.log.Warn("an image could not be fetched ahead", "image", ref, "err", err)
			}
		}
		if ctx.Err() == nil {
			d.fill(ctx)
		}
	})
}

// disallowed returns the images to pull that no request can name. An image with a digest may be allowed once it is
// pulled.
func disallowed(cfg *config.Config) (refs []string) {
	p := service.DefaultPolicy()
	applyImages(&p, cfg)
	targets := slices.Collect(maps.Values(cfg.Aliases()))
	for _, ref := range cfg.ImagePrepull {
		if !p.AllowsImage(ref) && !strings.Contains(ref, "sha256:") && !slices.Contains(targets, ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}
