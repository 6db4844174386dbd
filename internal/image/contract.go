package image

import (
	"context"
	"io"

	"github.com/belljar/belljar"
)

// Catalog finds the images in the store. It sends no request to a registry.
type Catalog interface {
	// Names lists the names of the images: host first, then sorted.
	Names() []string
	// List describes every image, sorted by ref, host among them.
	List(ctx context.Context) ([]belljar.Image, error)
	// Get describes one image; [belljar.CodeNotFound] if it is missing.
	Get(ctx context.Context, ref string) (belljar.Image, error)
	// Find returns one image for a runtime, which counts as a use; [belljar.CodeImageUnavailable] if it is missing.
	Find(ctx context.Context, ref string) (Root, error)
	// Use keeps an image from being removed until end is called, as a sandbox does. It does nothing for a missing image.
	Use(digest string) (end func())
}

// Keeper changes the images in the store.
type Keeper interface {
	// Pull fetches an image from its registry, if it is missing or always is set, and reports progress unless progress is
	// nil.
	Pull(ctx context.Context, ref string, always bool, progress func(belljar.ImageProgress)) (belljar.Image, error)
	// Import reads an image from an archive. If name is "", it gets the names in the archive.
	Import(ctx context.Context, name string, r io.Reader, progress func(belljar.ImageProgress)) (belljar.Image, error)
	// Tag gives an image an additional name. If another image has that name, the name moves.
	Tag(ctx context.Context, ref, name string) (belljar.Image, error)
	// Remove removes a name, and with its last name the image; [belljar.CodeConflict] while a sandbox uses it.
	Remove(ctx context.Context, ref string) error
	// Prune removes images that no sandbox uses.
	Prune(ctx context.Context, p belljar.ImagePrune) (belljar.ImagePruned, error)
}

// Library is everything that the service needs of a store of images.
type Library interface {
	Catalog
	Keeper
}

var _ Library = (*Store)(nil)
