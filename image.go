package belljar

import (
	"context"
	"io"
	"time"
)

// Image is a root file system that is ready here.
type Image struct {
	// Ref is its first name: host, or a whole reference such as docker.io/library/python:3.11-slim.
	Ref     string   `json:"ref"`
	Names   []string `json:"names"`   // all its names, aliases included, as they were given
	Digest  string   `json:"digest"`  // sha256:… of its manifest for this platform; "" for host
	Runtime string   `json:"runtime"` // the runtime whose engine keeps it; "" if Belljar does, for every runtime that can use it
	// Source is where it came from: pull, import, build, host or engine.
	Source     string      `json:"source"`
	Platform   string      `json:"platform,omitempty"` // as linux/amd64
	Bytes      int64       `json:"bytes"`              // of its files, unpacked
	Layers     int         `json:"layers"`
	Config     ImageConfig `json:"config"`
	CreatedAt  time.Time   `json:"created_at,omitzero"` // as the image says
	AddedAt    time.Time   `json:"added_at,omitzero"`
	LastUsedAt time.Time   `json:"last_used_at,omitzero"` // by a sandbox; to the minute
	InUse      bool        `json:"in_use,omitempty"`      // sandboxes that live now have it
}

// ImageConfig is what an image says about the programs run in it. A request's command is the whole argv, so its
// entrypoint and command are only shown.
type ImageConfig struct {
	User       string            `json:"user,omitempty"` // in force unless it is root
	Env        []string          `json:"env,omitempty"`  // NAME=value; a request's env goes over it
	WorkingDir string            `json:"working_dir,omitempty"`
	Entrypoint []string          `json:"entrypoint,omitempty"`
	Cmd        []string          `json:"cmd,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
}

// The phases of [ImageProgress], in their order.
const (
	ImageResolving = "resolving"
	ImagePulling   = "pulling"   // bytes are those that come over the network, or of what is imported
	ImageUnpacking = "unpacking" // one layer's files
	ImageDone      = "done"
)

// ImageProgress is how far a pull or an import has come.
type ImageProgress struct {
	Phase string `json:"phase"`
	Layer string `json:"layer,omitempty"` // digest of the layer it is about; "" for all of it
	Done  int64  `json:"done"`            // bytes
	Total int64  `json:"total,omitempty"` // bytes; 0 is unknown
	// Shared reports that a layer was here already.
	Shared bool `json:"shared,omitempty"`
}

// ImagePull asks for an image from its registry.
type ImagePull struct {
	Ref string `json:"ref"`
	// Runtime is the runtime whose engine is to have it; "" is Belljar's own store.
	Runtime string `json:"runtime,omitempty"`
	// Always asks the registry what the name stands for now, even if an image of that name is here.
	Always bool `json:"always,omitempty"`
}

// ImagePrune says which images may go: all that no sandbox uses and that are older or more than this. At least one
// bound is given.
type ImagePrune struct {
	UnusedSec float64 `json:"unused_sec,omitempty"` // not used for so long
	KeepBytes int64   `json:"keep_bytes,omitempty"` // those used longest ago go until what is left has no more than this
	All       bool    `json:"all,omitempty"`        // every one that is not in use
}

// ImagePruned is what went.
type ImagePruned struct {
	Images []string `json:"images"` // their digests
	Bytes  int64    `json:"bytes"`  // that were freed
}

// Images is the root file systems that are here. Every caller may list them and, where the policy lets requests pull, pull
// what the policy allows; the rest is for operators ([CodeForbidden] for others).
type Images interface {
	// List is sorted by ref.
	List(ctx context.Context) ([]Image, error)
	// Get returns the image of a name or digest; [CodeNotFound] if there is none.
	Get(ctx context.Context, ref string) (Image, error)
	// Pull fetches an image and returns when it is ready. It calls progress, unless that is nil, one call at a time.
	// Concurrent pulls of one image share one download. Errors: [CodeImageUnavailable] with the registry's reason,
	// [CodeImageInvalid] for an invalid or hostile image.
	Pull(ctx context.Context, p ImagePull, progress func(ImageProgress)) (Image, error)
	// Import reads an image from r: an OCI layout or a docker save archive, as tar, or a tar of a root file system; each of
	// them may be compressed with gzip or zstd. name is its name; "" takes the one in the archive. The image's ref is that name,
	// even if it was here by another one.
	Import(ctx context.Context, name string, r io.Reader, progress func(ImageProgress)) (Image, error)
	// Tag gives an image one more name, which may be anything that a request may say: python:3.11-slim. A name that another
	// image has moves.
	Tag(ctx context.Context, ref, name string) (Image, error)
	// Remove takes a name away, and with its last one, or by digest, the image. [CodeConflict] while a sandbox uses it.
	Remove(ctx context.Context, ref string) error
	// Prune removes what is not used.
	Prune(ctx context.Context, p ImagePrune) (ImagePruned, error)
}
