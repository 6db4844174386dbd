package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
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

// fromSaved finds the image in a docker save archive. Other images may be in it only if name says which is meant.
func (s *Store) fromSaved(ctx context.Context, a *archive, images []saved, name string) (out made, sources []source, err error) {
	one, err := pickSaved(images, name)
	if err != nil {
		return out, nil, err
	}
	out = made{source: sourceImport}
	if out.names, err = namesOf(name, one.RepoTags); err != nil {
		return out, nil, err
	}
	if len(one.Layers) > mostLayers {
		return out, nil, fault("layers", "it has %d layers, more than %d", len(one.Layers), mostLayers)
	}
	files, err := a.open(ctx, append([]string{one.Config}, one.Layers...))
	if err != nil {
		return out, nil, err
	}
	if files[one.Config] == nil {
		return out, nil, fmt.Errorf("%w: %s", errMissing, one.Config)
	}
	data, err := small(files[one.Config], "its config", mostConfig)
	if err != nil {
		return out, nil, err
	}
	if said := strings.TrimPrefix(strings.TrimSuffix(path.Base(one.Config), ".json"), "sha256:"); len(said) == 64 && hexadecimal(said) && digestOf(data) != "sha256:"+said {
		return out, nil, fault("digest", "its config is another one, %s", digestOf(data))
	}
	if out.config, err = parseConfig(data, len(one.Layers)); err != nil {
		return out, nil, err
	}
	if out.platform, err = s.runs(out.names[0], out.config); err != nil {
		return out, nil, err
	}
	layers := make([]descriptor, len(one.Layers))
	for i, n := range one.Layers {
		r := files[n]
		if r == nil {
			return out, nil, fmt.Errorf("%w: %s", errMissing, n)
		}
		if layers[i], err = describe(ctx, r, out.config.RootFS.DiffIDs[i]); err != nil {
			return out, nil, err
		}
		sources = append(sources, source{id: out.config.RootFS.DiffIDs[i], digest: layers[i].Digest, size: r.Size(), open: section(r)})
	}
	out.digest = compose(data, layers)
	return out, sources, nil
}

// pickSaved is the one image of an archive, or the one of a name.
func pickSaved(images []saved, name string) (saved, error) {
	if len(images) == 1 {
		return images[0], nil
	}
	var all []string
	for _, i := range images {
		for _, tag := range i.RepoTags {
			if whole, err := Parse(tag); err == nil && name != "" && whole.Name == name {
				return i, nil
			}
			all = append(all, printable(tag))
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

// describe finds out what a registry would call a layer: by what it is, if it is a plain tar, whose digest the config
// has.
func describe(ctx context.Context, r *io.SectionReader, id string) (descriptor, error) {
	head := make([]byte, 6)
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return descriptor{}, failed("read an archive", err)
	}
	kind, err := packing(head[:n])
	if err != nil {
		return descriptor{}, err
	}
	if kind == "" {
		return descriptor{MediaType: kindLayer, Digest: id, Size: r.Size()}, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, &interrupted{ctx, io.NewSectionReader(r, 0, r.Size())}); err != nil {
		return descriptor{}, failed("read an archive", err)
	}
	return descriptor{MediaType: kindLayer + "+" + kind, Digest: "sha256:" + hex.EncodeToString(h.Sum(nil)), Size: r.Size()}, nil
}
