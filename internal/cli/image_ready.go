package cli

import (
	"context"
	"slices"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/local"
)

// readyImage pulls an image that is missing where the command runs, and shows the progress. The pull then does not count against
// the startup timeout. It does nothing if requests may not pull images, or if the runtime called name ("" for any) is unavailable:
// the request itself then fails.
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
	image, err := s.Images().Pull(ctx, belljar.ImagePull{Ref: ref}, shown.Update)
	shown.Stop()
	switch {
	case belljar.CodeOf(err) == belljar.CodePolicyDenied:
		return nil // the request reports it better
	case err != nil:
		return err
	}
	c.Note("pulled %s, %s", ref, show.Bytes(image.Bytes))
	return nil
}

// works reports whether the named runtime is available, or any if name is "".
func works(list []belljar.RuntimeInfo, name string) bool {
	return slices.ContainsFunc(list, func(r belljar.RuntimeInfo) bool { return r.Available && (name == "" || r.Name == name) })
}
