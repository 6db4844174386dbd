// Package image keeps images: it turns the reference in a request into a read-only root file system that is ready on
// this host. A [Store] pulls images from registries, imports them from archives, unpacks each layer once and makes every
// image a folder of hard links, for all runtimes and without an engine.
package image

import (
	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// Root is an image, ready on this host.
type Root struct {
	Ref    string // its name in the store: host, docker.io/library/python:3.11-slim; its digest if it has no name
	Digest string // sha256:… of the manifest for this platform; "" for host, whose contents are whatever the machine has installed
	Dir    string // folder with its files, which are read-only; "" for host
	// Lock is the file on which each user of Dir holds a shared flock(2); see [runtime.Root].
	Lock   string
	Config belljar.ImageConfig
	// UID and GID are the image's user; 0, also for root, means Belljar's own user.
	UID, GID int
}

// Runtime converts the image for a runtime.
func (r Root) Runtime() runtime.Root {
	return runtime.Root{Ref: r.Ref, Digest: r.Digest, Dir: r.Dir, Lock: r.Lock, Env: r.Config.Env, UID: r.UID, GID: r.GID}
}
