package cli

import (
	"context"
	"slices"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/local"
)

// readyImage fetches an image that is not where the command is carried out, and shows how that goes; the time that it takes
// is then not the sandbox's to start. Where requests pull nothing, nothing is done, and the request is refused; and so where
// the runtime called name, "" for whichever will do, does not work, since no image helps then.
func (c *console) readyImage(ctx context.Context, s belljar.Service, ref, name string) error {
	if ref == "" || ref == local.HostImage {
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
	if found, err := s.Node().Runtimes(ctx); err != nil || !works(found.Runtimes, name) {
		return err
	}
	shown := show.NewLayers(&c.Writer, ref, 0)
	image, err := s.Images().Pull(ctx, belljar.ImagePull{Ref: ref}, shown.Tell)
	shown.Stop()
	switch {
	case belljar.CodeOf(err) == belljar.CodePolicyDenied:
		return nil // the request says it better
	case err != nil:
		return err
	}
	c.Note("pulled %s, %s", ref, show.Bytes(image.Bytes))
	return nil
}

// works reports whether a runtime does that a request could get: the one it names, or any.
func works(list []belljar.RuntimeInfo, name string) bool {
	return slices.ContainsFunc(list, func(r belljar.RuntimeInfo) bool { return r.Available && (name == "" || r.Name == name) })
}
