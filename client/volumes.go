package client

import (
	"context"
	"net/http"

	"github.com/belljar/belljar"
)

// Volumes gives access to the caller's workspaces on disk.
func (c *Client) Volumes() belljar.Volumes { return volumes{c} }

// volumes implements [belljar.Volumes].
type volumes struct{ c *Client }

// Create makes a volume. It is not retried after a broken connection, because the retry would find the volume.
func (x volumes) Create(ctx context.Context, spec belljar.VolumeSpec) (belljar.Volume, error) {
	var made belljar.Volume
	return made, x.c.ask(ctx, request{method: http.MethodPost, path: route("volumes"), send: spec, once: true, longer: fileTime}, &made)
}

// Get returns a volume.
func (x volumes) Get(ctx context.Context, name string) (belljar.Volume, error) {
	var got belljar.Volume
	return got, x.c.get(ctx, &got, nil, "volumes", name)
}

// List returns the caller's volumes.
func (x volumes) List(ctx context.Context) ([]belljar.Volume, error) {
	return items[belljar.Volume](ctx, x.c, nil, "volumes")
}

// Remove removes a volume. A retried request may not find it.
func (x volumes) Remove(ctx context.Context, name string) error {
	return x.c.ask(ctx, request{method: http.MethodDelete, path: route("volumes", name), once: true}, nil)
}
