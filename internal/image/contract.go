package image

import (
	"context"
	"io"

	"github.com/belljar/belljar"
)

// Catalog finds the images that are here. It asks no registry.
type Catalog interface {
	// Names lists what the images are called, host first, then sorted.
	Names() []string
	// List describes every image, sorted by ref, host among them.
	List(ctx context.Context) ([]belljar.Image, error)
	// Get describes one image; [belljar.CodeNotFound] if it is not here.
	Get(ctx context.Context, ref string) (belljar.Image, error)
	// Find returns one image for a runtime, which counts as its use; [belljar.CodeImageUnavailable] if it is not here.
	Find(ctx context.Context, ref string) (Root, error)
	// Use keeps an image here until end is called, as a sandbox does. One that is not here is not kept.
	Use(digest string) (end func())
}

// Keeper changes which images are here.
type Keeper interface {
	// Pull fetches an image from its registry, if it is not here or always is set, and reports progress unless that is nil.
	Pull(ctx context.Context, ref string, always bool, progress func(belljar.ImageProgress)) (belljar.Image, error)
	// Import reads an image from an archive. name "" takes the names in the archive.
	Import(ctx context.Context, name string, r io.Reader, progress func(belljar.ImageProgress)) (belljar.Image, error)
	// Tag gives an image one more name. A name that another image has moves.
	Tag(ctx context.Context, ref, name string) (belljar.Image, error)
	// Remove takes a name away, and with its last one the image; [belljar.CodeConflict] while a sandbox uses it.
	Remove(ctx context.Context, ref string) error
	// Prune removes images that no sandbox uses.
	Prune(ctx context.Context, p belljar.ImagePrune) (belljar.ImagePruned, error)
}

// Library is all that the service asks of a store of images.
type Library interface {
	Catalog
	Keeper
}

var _ Library = (*Store)(nil)
