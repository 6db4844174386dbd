package image

import (
	"context"
	"fmt"
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
	lists []string // digests of lists that lead to it
	m     *manifest
}

// fromLayout finds the image in an OCI layout. Other images may be in it only if name says which is meant.
func (s *Store) fromLayout(ctx context.Context, a *archive, index *io.SectionReader, name string) (made, []source, error) {
	data, err := small(index, layoutIndex, mostManifest)
	if err != nil {
		return made{}, nil, err
	}
	list, err := parseManifest(data, kindIndex)
	if err != nil {
		return made{}, nil, err
	}
	if !list.list {
		return made{}, nil, fault("archive", "its index.json is not a list of images")
	}
	blobs, _, err := a.find(ctx, func(n string) bool { return strings.HasPrefix(n, "blobs/sha256/") })
	if err != nil {
		return made{}, nil, err
	}
	l := &layout{store: s, archive: a, blobs: blobs}
	images, all, err := l.images(list, name)
	if err != nil {
		return made{}, nil, err
	}
	if len(images) > 1 {
		return made{}, nil, several(all)
	}
	for digest, c := range images {
		return l.image(digest, c, name)
	}
	return made{}, nil, fault("archive", "it has no images")
}

// layout is an OCI layout in an archive.
type layout struct {
	store   *Store
	archive *archive
	blobs   map[string]member
}

// images are the layout's by digest, for this platform; if one of them is called name, that one alone. all are the names
// of all.
func (l *layout) images(list *manifest, name string) (found map[string]*candidate, all []string, err error) {
	groups := map[string][]descriptor{} // images of one name are one image, for several platforms
	for _, d := range list.Manifests {
		n := entryName(d)
		if n != "" {
			all = append(all, printable(n))
		} else if d.Platform == nil {
			n = "@" + d.Digest // one by itself
		}
		groups[n] = append(groups[n], d)
	}
	found = map[string]*candidate{}
	var failure error
	for n, entries := range groups {
		if whole, err := Parse(n); name != "" && err == nil && n != "" && whole.Name == name {
			groups = map[string][]descriptor{n: entries}
			break
		}
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		entries, n := groups[key], entryName(groups[key][0])
		choose := &chooser{want: l.store.platform, what: cmpOr(n, "in the archive"), manifest: l.read, config: l.config}
		var m chosen
		if len(entries) == 1 && entries[0].Platform == nil {
			m, err = choose.at(entries[0].Digest, -1, nil)
		} else {
			m, err = choose.among(&manifest{Manifests: entries}, nil)
		}
		if err != nil {
			failure = err
			continue
		}
		digest := m.digest
		c := found[digest]
		if c == nil {
			c = &candidate{m: m.manifest}
			found[digest] = c
		}
		c.lists = append(c.lists, m.lists...)
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
	return printable(s)
}

// entryName is what the index calls an image. A tag alone is no name.
func entryName(d descriptor) string {
	if n := d.Annotations[fullNameAnnotation]; n != "" {
		return n
	}
	if n := d.Annotations[nameAnnotation]; strings.ContainsAny(n, "/:") {
		return n
	}
	return ""
}

// read returns a manifest or another small blob.
func (l *layout) read(digest string) ([]byte, string, error) {
	r, err := l.blob(digest)
	if err != nil {
		return nil, "", err
	}
	data, err := small(r, digest, mostManifest)
	if err == nil && digestOf(data) != digest {
		err = fault("digest", "%s in the archive is another one, %s", digest, digestOf(data))
	}
	return data, "", err
}

func (l *layout) config(d descriptor) ([]byte, error) {
	data, _, err := l.read(d.Digest)
	return data, err
}

func (l *layout) blob(digest string) (*io.SectionReader, error) {
	if !wholeDigest(digest) {
		return nil, fault("manifest", "%q is not a sha256 digest", printable(digest))
	}
	name := "blobs/sha256/" + shortID(digest)
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
		return nil, fault("archive", "%q is a sparse file in the archive", name)
	}
	return io.NewSectionReader(l.archive.f, m.at, m.size), nil
}

// image is what the store needs of one.
func (l *layout) image(digest string, c *candidate, name string) (out made, sources []source, err error) {
	out = made{digest: digest, also: c.lists, source: sourceImport}
	if c.m.Annotations[SourceAnnotation] == sourceBuild {
		out.source = sourceBuild
	}
	if out.names, err = namesOf(name, c.names); err != nil {
		return out, nil, err
	}
	data, _, err := l.read(c.m.Config.Digest)
	if err != nil {
		return out, nil, err
	}
	if out.config, err = parseConfig(data, len(c.m.Layers)); err != nil {
		return out, nil, err
	}
	if out.platform, err = l.store.runs(out.names[0], out.config); err != nil {
		return out, nil, err
	}
	for i, d := range c.m.Layers {
		r, err := l.blob(d.Digest)
		if err != nil {
			return out, nil, err
		}
		if r.Size() != d.Size {
			return out, nil, fault("layers", "layer %s has %d bytes in the archive, not %d", d.Digest, r.Size(), d.Size)
		}
		sources = append(sources, source{id: out.config.RootFS.DiffIDs[i], digest: d.Digest, size: d.Size, open: section(r)})
	}
	return out, sources, nil
}
