package archive

import (
	"context"
	"fmt"
	"github.com/belljar/belljar/internal/image/fault"
	"github.com/belljar/belljar/internal/image/manifest"
	"github.com/belljar/belljar/internal/image/reference"
	"io"
	"maps"
	"slices"
	"strings"
)

// The annotations of an OCI layout's index that name an image.
const (
	nameAnnotation     = "org.opencontainers.image.ref.name"
	fullNameAnnotation = "io.containerd.image.name"
)

// candidate is an image in an archive.
type candidate struct {
	names []string
	lists []string // digests of the lists that contain it
	m     *manifest.Manifest
}

// fromLayout finds the image in an OCI layout. The layout may contain other images only if name selects one.
func (a *Archive) fromLayout(ctx context.Context, index *io.SectionReader, name string) (manifest.Image, error) {
	data, err := small(index, layoutIndex, manifest.MaxManifest)
	if err != nil {
		return manifest.Image{}, err
	}
	list, err := manifest.Parse(data, manifest.KindIndex)
	if err != nil {
		return manifest.Image{}, err
	}
	if !list.List {
		return manifest.Image{}, fault.Invalid("archive", "its index.json is not a list of images")
	}
	blobs, _, err := a.find(ctx, func(n string) bool { return strings.HasPrefix(n, "blobs/sha256/") })
	if err != nil {
		return manifest.Image{}, err
	}
	l := &layout{ctx: ctx, archive: a, blobs: blobs}
	images, all, err := l.images(list, name)
	if err != nil {
		return manifest.Image{}, err
	}
	if len(images) > 1 {
		return manifest.Image{}, several(all)
	}
	for digest, c := range images {
		return l.image(digest, c, name)
	}
	return manifest.Image{}, fault.Invalid("archive", "it has no images")
}

// layout is an OCI layout in an archive.
type layout struct {
	ctx     context.Context // the import's context
	archive *Archive
	blobs   map[string]member
	read    int64 // bytes of manifests and configs
}

// mostRead limits the bytes of manifests and configs that are read. An archive of a few kilobytes could otherwise require reading
// gigabytes.
const mostRead = 32 * manifest.MaxManifest

// images returns the layout's images for this platform, by digest; only the one that is called name, if there is one. all are the
// names of all images.
func (l *layout) images(list *manifest.Manifest, name string) (found map[string]*candidate, all []string, err error) {
	groups := map[string][]manifest.Descriptor{} // images of one name are one image for several platforms
	for _, d := range list.Manifests {
		n := entryName(d)
		if n != "" {
			all = append(all, fault.Printable(n))
		} else if d.Platform == nil {
			n = "@" + d.Digest // an image of its own
		}
		groups[n] = append(groups[n], d)
	}
	found = map[string]*candidate{}
	var failure error
	for n, entries := range groups {
		if whole, err := reference.Parse(n); name != "" && err == nil && n != "" && whole.Name == name {
			groups = map[string][]manifest.Descriptor{n: entries}
			break
		}
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		entries, n := groups[key], entryName(groups[key][0])
		choose := &manifest.Chooser{Want: l.archive.Platform, Name: cmpOr(n, "in the archive"), Manifest: l.manifest, Config: l.config}
		var m manifest.Chosen
		if len(entries) == 1 && entries[0].Platform == nil {
			m, err = choose.Resolve(entries[0].Digest, -1, nil)
		} else {
			m, err = choose.ChooseFrom(&manifest.Manifest{Manifests: entries}, nil)
		}
		if err != nil {
			failure = err
			continue
		}
		digest := m.Digest
		c := found[digest]
		if c == nil {
			c = &candidate{m: m.Manifest}
			found[digest] = c
		}
		c.lists = append(c.lists, m.Lists...)
		if n != "" {
			c.names = append(c.names, n)
		} else if len(all) == 0 {
			all = append(all, digest)
		}
	}
	if len(found) == 0 && failure != nil {
		return nil, nil, failure
	}
	for digest, c := range found {
		slices.Sort(c.names)
		if len(c.names) == 0 && len(found) > 1 {
			all = append(all, digest)
		}
	}
	return found, all, nil
}

func cmpOr(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return fault.Printable(s)
}

// entryName returns the index's name of an image. A tag alone is not a name.
func entryName(d manifest.Descriptor) string {
	if n := d.Annotations[fullNameAnnotation]; n != "" {
		return n
	}
	if n := d.Annotations[nameAnnotation]; strings.ContainsAny(n, "/:") {
		return n
	}
	return ""
}

// manifest returns a manifest or another small blob.
func (l *layout) manifest(digest string) ([]byte, string, error) {
	if err := l.ctx.Err(); err != nil {
		return nil, "", err
	}
	r, err := l.blob(digest)
	if err != nil {
		return nil, "", err
	}
	if l.read += min(r.Size(), manifest.MaxManifest); l.read > mostRead {
		return nil, "", fault.TooLarge("manifests", mostRead, "its manifests and configs have more than %d bytes", mostRead)
	}
	data, err := small(r, digest, manifest.MaxManifest)
	if err == nil && reference.DigestOf(data) != digest {
		err = fault.Invalid("digest", "%s in the archive is another one, %s", digest, reference.DigestOf(data))
	}
	return data, "", err
}

func (l *layout) config(d manifest.Descriptor) ([]byte, error) {
	data, _, err := l.manifest(d.Digest)
	return data, err
}

func (l *layout) blob(digest string) (*io.SectionReader, error) {
	if !reference.IsDigest(digest) {
		return nil, fault.Invalid("manifest", "%q is not a sha256 digest", fault.Printable(digest))
	}
	name := "blobs/sha256/" + reference.ShortDigest(digest)
	m, ok := l.blobs[name]
	for range mostHops {
		if m.link == "" {
			break
		}
		m, ok = l.blobs[m.link]
	}
	switch {
	case !ok || m.link != "":
		return nil, fmt.Errorf("%w: %s", errMissing, name)
	case m.hole:
		return nil, fault.Invalid("archive", "%q is a sparse file in the archive", name)
	}
	return io.NewSectionReader(l.archive.File, m.at, m.size), nil
}

// image describes an image for the store.
func (l *layout) image(digest string, c *candidate, name string) (out manifest.Image, err error) {
	out = manifest.Image{Digest: digest, Also: c.lists, Source: manifest.Imported}
	if c.m.Annotations[SourceAnnotation] == manifest.Built {
		out.Source = manifest.Built
	}
	if out.Names, err = namesOf(name, c.names); err != nil {
		return out, err
	}
	data, _, err := l.manifest(c.m.Config.Digest)
	if err != nil {
		return out, err
	}
	if out.Config, err = manifest.ParseConfig(data, len(c.m.Layers)); err != nil {
		return out, err
	}
	if out.Platform, err = out.Config.Runs(out.Names[0], l.archive.Platform); err != nil {
		return out, err
	}
	for i, d := range c.m.Layers {
		r, err := l.blob(d.Digest)
		if err != nil {
			return out, err
		}
		if r.Size() != d.Size {
			return out, fault.Invalid("layers", "layer %s has %d bytes in the archive, not %d", d.Digest, r.Size(), d.Size)
		}
		out.Layers = append(out.Layers, manifest.Layer{Id: out.Config.RootFS.DiffIDs[i], Digest: d.Digest, Size: d.Size, Open: section(r)})
	}
	return out, nil
}
