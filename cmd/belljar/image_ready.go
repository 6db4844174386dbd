package main

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// readyImage fetches an image that is not where the command is carried out, and shows how that goes; the time that it takes
// is then not the sandbox's to start. Where requests pull nothing, nothing is done, and the request is refused.
func (c *console) readyImage(ctx context.Context, s belljar.Service, ref string) error {
	if ref == "" || ref == runtime.HostRef {
		return nil
	}
	_, err := s.Images().Get(ctx, ref)
	if belljar.CodeOf(err) != belljar.CodeNotFound {
		return err
	}
	me, err := s.Node().Me(ctx)
	if err != nil || me.Policy["SANDBOX_IMAGE_PULL"] == "never" {
		return err
	}
	shown := c.layers(ref, 0)
	image, err := s.Images().Pull(ctx, belljar.ImagePull{Ref: ref}, shown.tell)
	shown.stop()
	switch {
	case belljar.CodeOf(err) == belljar.CodePolicyDenied:
		return nil // the request says it better
	case err != nil:
		return err
	}
	c.note("pulled %s, %s", ref, bytesOf(image.Bytes))
	return nil
}
