package rest_test

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/belljar/belljar"
)

var _ belljar.Images = (*gallery)(nil)

// gallery keeps images in memory. Pulls of names that begin with slow report progress and wait for resume.
type gallery struct {
	mu     sync.Mutex
	names  map[string]string // name → digest
	resume chan struct{}
	ended  chan error // gets the errors of slow pulls
	sent   string     // the last import
}

func newGallery() *gallery {
	return &gallery{names: map[string]string{"python:3.11-slim": digestOf("python")}, resume: make(chan struct{}), ended: make(chan error, 1)}
}

func digestOf(name string) string { return "sha256:" + strings.Repeat("0", 63) + string('a'+name[0]%6) }

func (g *gallery) one(ref string) (belljar.Image, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	digest, ok := g.names[ref]
	if !ok {
		return belljar.Image{}, missing("image")
	}
	return belljar.Image{Ref: ref, Digest: digest, Names: []string{ref}, Source: "pull", Layers: 2, Bytes: 4096, AddedAt: now(),
		Config: belljar.ImageConfig{Env: []string{"A=b"}, User: "app", WorkingDir: "/srv", Cmd: []string{"sh"}}}, nil
}

func (g *gallery) List(context.Context) ([]belljar.Image, error) {
	list := []belljar.Image{{Ref: "host", Source: "host"}}
	for name := range g.names {
		i, _ := g.one(name)
		list = append(list, i)
	}
	slices.SortFunc(list, func(a, b belljar.Image) int { return cmp.Compare(a.Ref, b.Ref) })
	return list, nil
}

func (g *gallery) Get(_ context.Context, ref string) (belljar.Image, error) { return g.one(ref) }

func (g *gallery) Pull(ctx context.Context, p belljar.ImagePull, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	switch {
	case p.Ref == "denied":
		return belljar.Image{}, &belljar.Error{Code: belljar.CodePolicyDenied, Message: "not allowed here"}
	case strings.HasPrefix(p.Ref, "slow"):
		if progress != nil {
			progress(belljar.ImageProgress{Phase: belljar.ImagePulling, Layer: digestOf("layer"), Done: 1, Total: 3})
		}
		select {
		case <-g.resume:
		case <-ctx.Done():
			g.ended <- ctx.Err()
			return belljar.Image{}, ctx.Err()
		}
		if p.Ref == "slow-broken" {
			return belljar.Image{}, &belljar.Error{Code: belljar.CodeImageUnavailable, Message: "the registry went away", Hint: "try again"}
		}
	}
	g.mu.Lock()
	g.names[p.Ref] = digestOf(p.Ref)
	g.mu.Unlock()
	if progress != nil {
		progress(belljar.ImageProgress{Phase: belljar.ImageDone, Done: 3, Total: 3})
	}
	return g.one(p.Ref)
}

func (g *gallery) Import(_ context.Context, name string, r io.Reader, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	if progress != nil {
		progress(belljar.ImageProgress{Phase: belljar.ImagePulling, Done: 1})
	}
	all, err := io.ReadAll(r)
	if err != nil {
		return belljar.Image{}, err
	}
	g.sent = string(all)
	if g.sent == "bad" {
		return belljar.Image{}, &belljar.Error{Code: belljar.CodeImageInvalid, Message: "this is no image"}
	}
	return g.Pull(context.Background(), belljar.ImagePull{Ref: cmp.Or(name, "named-inside")}, progress)
}

func (g *gallery) Tag(_ context.Context, ref, name string) (belljar.Image, error) {
	i, err := g.one(ref)
	if err == nil {
		g.names[name] = i.Digest
		i.Names = append(i.Names, name)
	}
	return i, err
}

func (g *gallery) Remove(_ context.Context, ref string) error {
	if ref == "used" {
		return &belljar.Error{Code: belljar.CodeConflict, Message: "in use", Details: map[string]any{"sessions": []string{"s1"}}}
	}
	_, err := g.one(ref)
	delete(g.names, ref)
	return err
}

func (g *gallery) Prune(_ context.Context, p belljar.ImagePrune) (belljar.ImagePruned, error) {
	if p == (belljar.ImagePrune{}) {
		return belljar.ImagePruned{}, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "say what may go"}
	}
	return belljar.ImagePruned{Bytes: 7}, nil
}
