package daemon

import (
	"context"
	"io"

	"github.com/belljar/belljar/internal/image/debian"
	"github.com/belljar/belljar/internal/image/reference"
	"github.com/belljar/belljar/internal/local"
)

// Recipes returns the names of the images that Build can make.
func (*Host) Recipes() []string { return debian.Names() }

// Build writes an image made of Debian packages to w, as a tar archive.
func (*Host) Build(ctx context.Context, b local.Build, w io.Writer) error {
	for _, name := range b.Names {
		if err := reference.CheckName(name); err != nil {
			return err
		}
	}
	return debian.Build(ctx, debian.Options{Name: b.Recipe, Packages: b.Packages, Suite: b.Suite, Mirror: b.Mirror, Log: b.Log}, w)
}
