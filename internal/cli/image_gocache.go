package cli

import (
	"context"
	"errors"

	"github.com/belljar/belljar/internal/cli/interrupt"
	"github.com/belljar/belljar/internal/cli/mistake"
)

// imageGoCache is belljar image go-cache.
type imageGoCache struct {
	Ref string `arg:"" optional:"" default:"host" name:"image" help:"Such as golang:1.26 (default host: this machine's own Go)."`
}

// Run fills the cache of one image, or refills it for another version of Go.
func (i *imageGoCache) Run(ctx context.Context, c *console) (err error) {
	if c.server.given() {
		return mistake.New("a server makes them itself when a first Go program runs", "image go-cache is for commands without a server")
	}
	c.image = i.Ref
	e, err := c.open("", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	ctx, stopped := interrupt.Context(ctx)
	if err := c.readyImage(ctx, e.Service, i.Ref, ""); err != nil {
		return stopped(err)
	}
	c.Note("building Go's standard library in image %s, for about a minute", i.Ref)
	return stopped(c.machine.FillGoCache(ctx, e.Service, i.Ref))
}
