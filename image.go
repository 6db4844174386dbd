package belljar

import (
	"context"
	"io"
	"time"
)

// Image is a root file system that is available on this server.
type Image struct {
	// Ref is its first name: host, or a full reference such as docker.io/library/python:3.11-slim.
	Ref     string   `json:"ref"`
	Names   []string `json:"names"`   // all its names, aliases included, as they were entered
	Digest  string   `json:"digest"`  // sha256:… of its manifest for this platform; "" for host
	Runtime string   `json:"runtime"` // the runtime whose engine stores it; "" for Belljar's own store, for every runtime
	// Source is its origin: pull, import, build, host or engine.
	Source     string      `json:"source"`
	Platform   string      `json:"platform,omitempty"` // such as linux/amd64
	Bytes      int64       `json:"bytes"`              // of its files, unpacked
	Layers     int         `json:"layers"`
	Config     ImageConfig `json:"config"`
	CreatedAt  time.Time   `json:"created_at,omitzero"` // from the image's metadata
	AddedAt    time.Time   `json:"added_at,omitzero"`
	LastUsedAt time.Time   `json:"last_used_at,omitzero"` // by a sandbox; to the minute
	InUse      bool        `json:"in_use,omitempty"`      // a running sandbox uses it
}

// ImageConfig is the image's configuration for programs. A request's command is the whole argv, so the entrypoint and command
// are only informative.
type ImageConfig struct {
	User       string            `json:"user,omitempty"` // used unless it is root
	Env        []string          `json:"env,omitempty"`  // NAME=value; a request's env overrides it
	WorkingDir string            `json:"working_dir,omitempty"`
	Entrypoint []string          `json:"entrypoint,omitempty"`
	Cmd        []string          `json:"cmd,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
}

// The phases of [ImageProgress], in order.
const (
	ImageResolving = "resolving"
	ImagePulling   = "pulling"   // bytes are those of the download or import
	ImageUnpacking = "unpacking" // bytes are those of one layer's files
	ImageDone      = "done"
)

// ImageProgress is the progress of a pull or an import.
type ImageProgress struct {
	Phase string `json:"phase"`
	Layer string `json:"layer,omitempty"` // digest of the layer; "" for the whole image
	Done  int64  `json:"done"`            // bytes
	Total int64  `json:"total,omitempty"` // bytes; 0 is unknown
	// Shared reports that the layer was already present.
	Shared bool `json:"shared,omitempty"`
}

// ImagePull is a request to pull an image from its registry.
type ImagePull struct {
	Ref string `json:"ref" minLength:"1"`
	// Runtime is the runtime whose engine pulls the image; "" is Belljar's own store.
	Runtime string `json:"runtime,omitempty"`
	// Always resolves the name at the registry, even if an image with that name is present.
	Always bool `json:"always,omitempty"`
}

// ImagePrune selects unused images to remove. At least one bound is required.
type ImagePrune struct {
	UnusedSec float64 `json:"unused_sec,omitempty"` // remove images that were not used for this long
	KeepBytes int64   `json:"keep_bytes,omitempty"` // remove the least recently used images until this many bytes are left
	All       bool    `json:"all,omitempty"`        // remove all unused images
}

// ImagePruned lists the removed images.
type ImagePruned struct {
	Images []string `json:"images"` // their digests
	Bytes  int64    `json:"bytes"`  // bytes freed
}

// Images manages the root file systems of this server. Every caller may list them and, if the policy permits pulls, pull the
// images that it permits. All other methods are for operators ([CodeForbidden] for others).
type Images interface {
	// List returns all images, sorted by ref.
	List(ctx context.Context) ([]Image, error)
	// Get returns the image with a name or digest; [CodeNotFound] if there is none.
	Get(ctx context.Context, ref string) (Image, error)
	// Pull fetches an image and returns when it is ready. It calls progress, unless that is nil, one call at a time. Concurrent
	// pulls of one image share one download. Errors: [CodeImageUnavailable] with the registry's reason, [CodeImageInvalid] for
	// an invalid or malicious image.
	Pull(ctx context.Context, p ImagePull, progress func(ImageProgress)) (Image, error)
	// Import reads an image from r: an OCI layout or a docker save archive, as tar, or a tar of a root file system, each
	// optionally compressed with gzip or zstd. name is its name; "" uses the name in the archive. The image's ref is that name,
	// even if it was present under another name.
	Import(ctx context.Context, name string, r io.Reader, progress func(ImageProgress)) (Image, error)
	// Tag gives an image one more name, which may be any image reference of a request: python:3.11-slim. If another image has
	// the name, the name moves.
	Tag(ctx context.Context, ref, name string) (Image, error)
	// Remove removes a name. It removes the image with its last name, or if ref is a digest. [CodeConflict] while a sandbox uses
	// it.
	Remove(ctx context.Context, ref string) error
	// Prune removes unused images.
	Prune(ctx context.Context, p ImagePrune) (ImagePruned, error)
}
