package archive

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/fault"
	"github.com/belljar/belljar/internal/image/manifest"
	"github.com/belljar/belljar/internal/image/reference"
	"github.com/belljar/belljar/internal/image/stream"
	"github.com/belljar/belljar/internal/runtime"
)

// SourceAnnotation is the annotation of a manifest that states the origin of an image; build is the only known value.
const SourceAnnotation = "dev.belljar.source"

// Files that identify the form of an archive.
const (
	layoutFile     = "oci-layout"
	layoutIndex    = "index.json"
	dockerManifest = "manifest.json"
	dockerNames    = "repositories" // with layers but without manifest.json: saved by Docker before 1.10
)

// oldLayer reports whether an entry has the name of a layer in docker save.
func oldLayer(name string) bool {
	id, ok := strings.CutSuffix(name, "/layer.tar")
	return ok && len(id) == 64 && reference.IsHex(id)
}

// Image finds the image called name in the archive; name "" takes the only one.
func (a *Archive) Image(ctx context.Context, name string) (manifest.Image, error) {
	heads, entries, err := a.find(ctx, func(n string) bool {
		return n == layoutFile || n == layoutIndex || n == dockerManifest || n == dockerNames || oldLayer(n)
	})
	if err != nil {
		return manifest.Image{}, err
	}
	if entries == 0 {
		return manifest.Image{}, fault.Invalid("archive", "it is empty, or no tar archive")
	}
	files, err := a.open(ctx, []string{layoutFile, layoutIndex, dockerManifest})
	if err != nil {
		return manifest.Image{}, err
	}
	_, layout := heads[layoutFile]
	if layout && files[layoutIndex] != nil {
		m, err := a.fromLayout(ctx, files[layoutIndex], name)
		if !errors.Is(err, errMissing) || files[dockerManifest] == nil {
			return m, missing(err)
		}
		// Docker lists blobs that it has not saved; the same archive then has the other form too.
	}
	if files[dockerManifest] != nil {
		data, err := small(files[dockerManifest], dockerManifest, manifest.MaxManifest)
		if err != nil {
			return manifest.Image{}, err
		}
		var saved []saved
		if json.Unmarshal(data, &saved) == nil && len(saved) > 0 && saved[0].Config != "" {
			m, err := a.fromSaved(ctx, saved, name)
			return m, missing(err)
		}
	}
	if _, named := heads[dockerNames]; named && len(heads) > 1 && files[dockerManifest] == nil && !layout {
		return manifest.Image{}, fault.Invalid("archive", "it was saved by Docker before 1.10, without a manifest: have a newer one load and save it")
	}
	return a.fromTree(name)
}

// errMissing means that the archive lacks a part that it names.
var errMissing = errors.New("a part is missing in the archive")

func missing(err error) error {
	if errors.Is(err, errMissing) {
		return fault.Invalid("archive", "%s", fault.Printable(err.Error()))
	}
	return err
}

// fromTree returns an image of one layer: the archive itself. Its digest is that of a manifest that depends only on the
// archive and the platform.
func (a *Archive) fromTree(name string) (manifest.Image, error) {
	if name == "" {
		return manifest.Image{}, unnamed()
	}
	var c manifest.Config
	c.OS, c.Architecture, c.Variant = a.Platform.OS, a.Platform.Arch, a.Platform.Variant
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{a.Digest}
	data, err := json.Marshal(c)
	if err != nil {
		return manifest.Image{}, fault.Wrap("describe an image", err)
	}
	src := manifest.Layer{Id: a.Digest, Size: a.Size, Open: section(io.NewSectionReader(a.File, 0, a.Size))}
	m := manifest.Image{
		Names: []string{name}, Source: manifest.Imported, Platform: a.Platform, Config: &c, Layers: []manifest.Layer{src},
		Digest: compose(data, []manifest.Descriptor{{MediaType: manifest.KindLayer, Digest: a.Digest, Size: a.Size}}),
	}
	return m, nil
}

// compose returns the digest of a manifest for an image that came without one.
func compose(config []byte, layers []manifest.Descriptor) string {
	data, _ := json.Marshal(struct { // only strings and numbers
		SchemaVersion int                   `json:"schemaVersion"`
		MediaType     string                `json:"mediaType"`
		Config        manifest.Descriptor   `json:"config"`
		Layers        []manifest.Descriptor `json:"layers"`
	}{2, manifest.KindManifest, manifest.Descriptor{MediaType: manifest.KindConfig, Digest: reference.DigestOf(config), Size: int64(len(config))}, layers})
	return reference.DigestOf(data)
}

func section(r *io.SectionReader) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		return io.NopCloser(stream.WithContext(ctx, io.NewSectionReader(r, 0, r.Size()))), nil
	}
}

func unnamed() error {
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: "the image in the archive has no name", Details: map[string]any{"field": "name"},
		Hint: "give it one with name (--name)",
	}
}

// several reports that an archive has more than one image.
func several(names []string) error {
	slices.Sort(names)
	names = slices.Compact(names)
	shown := names[:min(len(names), fault.ListedNames)]
	hint := "save one image to an archive"
	if chosen := slices.DeleteFunc(slices.Clone(shown), reference.IsDigest); len(chosen) > 0 {
		hint += ", or select one by name: " + strings.Join(chosen, ", ")
	}
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: "the archive has several images", Details: map[string]any{"field": "name", "available": shown},
		Hint: hint,
	}
}

// mostNames limits the names of an image in an archive.
const mostNames = 64

// namesOf turns the names in an archive into an image's names, after name.
func namesOf(name string, found []string) ([]string, error) {
	if name != "" {
		return []string{name}, nil
	}
	var names []string
	for _, f := range found {
		whole, err := reference.Parse(f)
		if err != nil || whole.Digest != "" || whole.Name == runtime.HostRef {
			return nil, fault.Invalid("name", "the archive calls its image %q", fault.Printable(f))
		}
		if !slices.Contains(names, whole.Name) {
			names = append(names, whole.Name)
		}
	}
	switch {
	case len(names) == 0:
		return nil, unnamed()
	case len(names) > mostNames:
		return nil, fault.Invalid("name", "the archive has %d names for its image, more than %d", len(names), mostNames)
	}
	return names, nil
}
