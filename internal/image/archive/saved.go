package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"github.com/belljar/belljar/internal/image/fault"
	"github.com/belljar/belljar/internal/image/manifest"
	"github.com/belljar/belljar/internal/image/reference"
	"github.com/belljar/belljar/internal/image/stream"
	"io"
	"path"
	"slices"
	"strings"
)

// saved is an image in the manifest.json of docker save.
type saved struct {
	Config   string   `json:"Config"`
	RepoTags []string `json:"RepoTags"`
	Layers   []string `json:"Layers"`
}

// fromSaved finds the image in a docker save archive. The archive may contain other images only if name selects one.
func (a *Archive) fromSaved(ctx context.Context, images []saved, name string) (out manifest.Image, err error) {
	one, err := pickSaved(images, name)
	if err != nil {
		return out, err
	}
	out = manifest.Image{Source: manifest.Imported}
	if out.Names, err = namesOf(name, one.RepoTags); err != nil {
		return out, err
	}
	if len(one.Layers) > manifest.MaxLayers {
		return out, fault.Invalid("layers", "it has %d layers, more than %d", len(one.Layers), manifest.MaxLayers)
	}
	files, err := a.open(ctx, append([]string{one.Config}, one.Layers...))
	if err != nil {
		return out, err
	}
	if files[one.Config] == nil {
		return out, fmt.Errorf("%w: %s", errMissing, one.Config)
	}
	data, err := small(files[one.Config], "its config", manifest.MaxConfig)
	if err != nil {
		return out, err
	}
	if digest := strings.TrimPrefix(strings.TrimSuffix(path.Base(one.Config), ".json"), "sha256:"); len(digest) == 64 && reference.IsHex(digest) && reference.DigestOf(data) != "sha256:"+digest {
		return out, fault.Invalid("digest", "its config is another one, %s", reference.DigestOf(data))
	}
	if out.Config, err = manifest.ParseConfig(data, len(one.Layers)); err != nil {
		return out, err
	}
	if out.Platform, err = out.Config.Runs(out.Names[0], a.Platform); err != nil {
		return out, err
	}
	layers := make([]manifest.Descriptor, len(one.Layers))
	for i, n := range one.Layers {
		r := files[n]
		if r == nil {
			return out, fmt.Errorf("%w: %s", errMissing, n)
		}
		if layers[i], err = describe(ctx, r, out.Config.RootFS.DiffIDs[i]); err != nil {
			return out, err
		}
		out.Layers = append(out.Layers, manifest.Layer{Id: out.Config.RootFS.DiffIDs[i], Digest: layers[i].Digest, Size: r.Size(), Open: section(r)})
	}
	out.Digest = compose(data, layers)
	return out, nil
}

// pickSaved returns the image called name, or the only one of an archive.
func pickSaved(images []saved, name string) (saved, error) {
	if len(images) == 1 {
		return images[0], nil
	}
	var all []string
	for _, i := range images {
		for _, tag := range i.RepoTags {
			if whole, err := reference.Parse(tag); err == nil && name != "" && whole.Name == name {
				return i, nil
			}
			all = append(all, fault.Printable(tag))
		}
	}
	same := func(i saved) bool { return i.Config != images[0].Config || !slices.Equal(i.Layers, images[0].Layers) }
	if slices.ContainsFunc(images, same) {
		return saved{}, several(all)
	}
	one := images[0]
	for _, i := range images[1:] {
		one.RepoTags = append(one.RepoTags, i.RepoTags...)
	}
	return one, nil
}

// describe returns the descriptor that a registry would give a layer. A plain tar has the digest that the config
// states.
func describe(ctx context.Context, r *io.SectionReader, id string) (manifest.Descriptor, error) {
	head := make([]byte, 6)
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return manifest.Descriptor{}, fault.Wrap("read an archive", err)
	}
	kind, err := stream.Compression(head[:n])
	if err != nil {
		return manifest.Descriptor{}, err
	}
	if kind == "" {
		return manifest.Descriptor{MediaType: manifest.KindLayer, Digest: id, Size: r.Size()}, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, stream.WithContext(ctx, io.NewSectionReader(r, 0, r.Size()))); err != nil {
		return manifest.Descriptor{}, fault.Wrap("read an archive", err)
	}
	return manifest.Descriptor{MediaType: manifest.KindLayer + "+" + kind, Digest: "sha256:" + hex.EncodeToString(h.Sum(nil)), Size: r.Size()}, nil
}
