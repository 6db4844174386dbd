// Package image turns the reference in a request into a read-only root file system that is ready on this host.
package image

import (
	"context"
	"fmt"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// Root is an image, ready on this host.
type Root struct {
	Ref    string // as it is called: host
	Digest string // sha256:…; "" for host, whose contents are whatever the machine has installed
	Dir    string // folder with its files; "" for host
	Config Config
}

// Config is what an image says about the programs run in it. A zero field leaves Belljar's own choice.
type Config struct {
	User       string   // name or uid[:gid]; "" is sandbox, uid 1000
	Env        []string // NAME=value; a request's env goes over it
	WorkingDir string   // "" is /workspace
}

// Runtime is the image as a runtime wants it.
func (r Root) Runtime() runtime.Root {
	return runtime.Root{Ref: r.Ref, Digest: r.Digest, Dir: r.Dir, Env: r.Config.Env}
}

// Resolver finds images. The zero value knows one: host, the machine's own /usr, read-only. Safe for concurrent use.
type Resolver struct{}

// List names the images that are there.
func (*Resolver) List() []string { return []string{runtime.HostRef} }

// Resolve returns the image called ref; "" is host. One that is not there is [belljar.CodeImageUnavailable], with the
// images that are in details.available.
func (r *Resolver) Resolve(_ context.Context, ref string) (Root, error) {
	if ref == "" || ref == runtime.HostRef {
		return Root{Ref: runtime.HostRef}, nil
	}
	there := r.List()
	return Root{}, &belljar.Error{
		Code:    belljar.CodeImageUnavailable,
		Message: fmt.Sprintf("image %q is not available", ref),
		Details: map[string]any{"image": ref, "available": there},
		Hint:    "images here: " + strings.Join(there, ", "),
	}
}
