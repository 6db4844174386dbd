package daemon

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/config"
)

// prepull pulls the configured images in the background, and then fills the pools that need them.
func (d *server) prepull(cfg *config.Config) {
	if len(cfg.ImagePrepull) == 0 {
		return
	}
	images := d.service.As(belljar.Caller{ID: "server", Role: belljar.RoleAdmin, Source: "server"}).Images()
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
