package daemon

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/config"
)

// prepull fetches the images that the operator wants to be here, behind the server's start, and then makes ready what could
// not be made without them.
func (d *server) prepull(cfg *config.Config) {
	if len(cfg.ImagePrepull) == 0 {
		return
	}
	images := d.service.As(belljar.Caller{ID: "server", Role: belljar.RoleAdmin, Source: "server"}).Images()
	d.behind(func(ctx context.Context) {
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
