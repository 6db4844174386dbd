package manifest

import (
	"context"
	"io"
)

// Image is an image as a registry or an archive has it: all that is known before a layer is read.
type Image struct {
	Digest   string
	Also     []string // digests of the lists that have led to it
	Names    []string
	Source   string // sourcePull, sourceImport, sourceBuild
	Platform Platform
	Config   *Config
	Layers   []Layer
}

// The sources of images.
const (
	Pulled   = "pull"
	Imported = "import"
	Built    = "build"
	Host     = "host"
)

// Layer is where a layer comes from.
type Layer struct {
	Id     string // digest of the uncompressed tar; what it must be
	Digest string // of what open returns; "" for id's own
	Size   int64  // of what open returns
	Open   func(ctx context.Context) (io.ReadCloser, error)
}

// Blob is what the layer is called in progress.
func (s Layer) Blob() string {
	if s.Digest == "" {
		return s.Id
	}
	return s.Digest
}
