package manifest

import (
	"context"
	"io"
)

// Image is an image as a registry or an archive describes it: all that is known before a layer is
// read.
type Image struct {
	Digest   string
	Also     []string // digests of the lists that led to it
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

// Layer is the source of a layer.
type Layer struct {
	Id     string // expected digest of the uncompressed tar
	Digest string // digest of the data of Open; "" if it equals Id
	Size   int64  // size of the data of Open
	From   string // host of its registry; "" for an archive
	Open   func(ctx context.Context) (io.ReadCloser, error)
}

// Blob returns the layer's name in progress reports.
func (s Layer) Blob() string {
	if s.Digest == "" {
		return s.Id
	}
	return s.Digest
}
