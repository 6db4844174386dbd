package image

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// Import reads an image from r: an OCI layout or a docker save archive, as tar, or a tar of a root file system; each of
// them may be compressed with gzip or zstd. name is its name, and chooses among several images where one has it; "" takes
// the names in the archive. An archive of several images, and one without a name where none is given, are refused. An
// image that says that it was built, by its manifest's annotation [SourceAnnotation], is listed as that. If ctx ends while r
// is being read, r may be read from once more.
func (s *Store) Import(ctx context.Context, name string, r io.Reader, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	if s.o.Path == "" {
		return belljar.Image{}, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "images are not kept here", Hint: "give the server a data folder"}
	}
	if name != "" {
		whole, err := Parse(name)
		if err == nil && (whole.Digest != "" || whole.Name == runtime.HostRef) {
			err = CheckName(name)
		}
		if err != nil {
			return belljar.Image{}, err
		}
		name = whole.Name
	}
	ctx, leave, err := s.flights.enter(ctx)
	if err != nil {
		return belljar.Image{}, err
	}
	defer leave()
	said := &listener{to: progress}
	defer said.end()
	img, err := s.importTar(ctx, name, r, said.tell)
	if err != nil {
		err = failed("import an image", err)
		if belljar.CodeOf(err) == belljar.CodeDiskFull {
			err = of(cmp.Or(name, "in the archive"), err)
		}
		return img, err
	}
	said.tell(finished(img))
	return img, nil
}

// SourceAnnotation is what a manifest's annotation is called that says where an image comes from; build is known.
const SourceAnnotation = "dev.belljar.source"

func (s *Store) importTar(ctx context.Context, name string, r io.Reader, tell func(belljar.ImageProgress)) (belljar.Image, error) {
	if err := s.sweep(ctx); err != nil {
		return belljar.Image{}, err
	}
	sp, err := s.space()
	if err != nil {
		return belljar.Image{}, err
	}
	defer s.done(sp)
	f, err := os.OpenFile(sp.in("archive"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return belljar.Image{}, failed("keep the archive", err)
	}
	defer f.Close()
	digest, size, err := s.spool(ctx, f, r, tell)
	if err != nil {
		return belljar.Image{}, err
	}
	a := &archive{f: f, size: size, most: s.o.MaxFiles}
	m, sources, err := s.recognise(ctx, a, name, digest)
	if err != nil {
		return belljar.Image{}, err
	}
	img, err := s.assemble(ctx, m, sources, tell)
	if err == nil {
		img.Ref = m.names[0] // also of an image that was here by another name
	}
	return img, err
}

// spool writes an archive down, uncompressed.
func (s *Store) spool(ctx context.Context, f *os.File, r io.Reader, tell func(belljar.ImageProgress)) (digest string, size int64, err error) {
	raw := newMeter(&interrupted{ctx, r}, belljar.ImageProgress{Phase: belljar.ImagePulling}, tell)
	come := newAhead(ctx, raw, nothing)
	defer come.abandon() // nobody knows when a reader returns that waits for a person
	u, err := decompress(ctx, come, s.large)
	if err != nil {
		return "", 0, unread(ctx, err)
	}
	in := newAhead(ctx, &bounded{r: s.watch(u), left: s.o.MaxBytes + int64(s.o.MaxFiles)*8192 + 1<<20}, u.Close)
	defer in.abandon()
	size, err = io.Copy(f, struct{ io.Reader }{in})
	if errors.Is(err, errEndless) {
		return "", 0, tooLarge("bytes", s.o.MaxBytes, "the archive has more than %d bytes", s.o.MaxBytes)
	}
	if err != nil {
		return "", 0, unread(ctx, err)
	}
	raw.end()
	return in.digest(), size, nil
}

func nothing() error { return nil }

// unread says why an archive did not come whole.
func unread(ctx context.Context, err error) error {
	var packed *packedError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &packed):
		return fault("compression", "it is not a valid %s: %s", packed.kind, printable(packed.err.Error()))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fault("archive", "it is cut off")
	}
	return failed("read the archive", err)
}

// interrupted is a reader that ends with a context, between two reads.
type interrupted struct {
	ctx context.Context
	r   io.Reader
}

func (i *interrupted) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.r.Read(p)
}

// The files by which an archive is known for what it is.
const (
	layoutFile     = "oci-layout"
	layoutIndex    = "index.json"
	dockerManifest = "manifest.json"
	dockerNames    = "repositories" // beside layers without manifest.json: saved by Docker before 1.10
)

// oldLayer reports whether an entry is a layer as docker save has always called it.
func oldLayer(name string) bool {
	id, ok := strings.CutSuffix(name, "/layer.tar")
	return ok && len(id) == 64 && hexadecimal(id)
}

// recognise finds the image in an archive.
func (s *Store) recognise(ctx context.Context, a *archive, name, digest string) (made, []source, error) {
	heads, entries, err := a.find(ctx, func(n string) bool {
		return n == layoutFile || n == layoutIndex || n == dockerManifest || n == dockerNames || oldLayer(n)
	})
	if err != nil {
		return made{}, nil, err
	}
	if entries == 0 {
		return made{}, nil, fault("archive", "it is empty, or no tar archive")
	}
	files, err := a.open(ctx, []string{layoutFile, layoutIndex, dockerManifest})
	if err != nil {
		return made{}, nil, err
	}
	_, layout := heads[layoutFile]
	if layout && files[layoutIndex] != nil {
		m, sources, err := s.fromLayout(ctx, a, files[layoutIndex], name)
		if !errors.Is(err, errMissing) || files[dockerManifest] == nil {
			return m, sources, missing(err)
		}
		// Docker lists what it has not saved, and has the other form in the same archive.
	}
	if files[dockerManifest] != nil {
		data, err := small(files[dockerManifest], dockerManifest, mostManifest)
		if err != nil {
			return made{}, nil, err
		}
		var saved []saved
		if json.Unmarshal(data, &saved) == nil && len(saved) > 0 && saved[0].Config != "" {
			m, sources, err := s.fromSaved(ctx, a, saved, name)
			return m, sources, missing(err)
		}
	}
	if _, named := heads[dockerNames]; named && len(heads) > 1 && files[dockerManifest] == nil && !layout {
		return made{}, nil, fault("archive", "it was saved by Docker before 1.10, without a manifest: have a newer one load and save it")
	}
	return s.fromTree(a, name, digest)
}

// errMissing says that an archive has not all that it speaks of.
var errMissing = errors.New("a part is missing in the archive")

func missing(err error) error {
	if errors.Is(err, errMissing) {
		return fault("archive", "%s", printable(err.Error()))
	}
	return err
}

// fromTree is an image of one layer: the archive itself. Its digest is that of a manifest that depends on the archive and
// the platform only.
func (s *Store) fromTree(a *archive, name, digest string) (made, []source, error) {
	if name == "" {
		return made{}, nil, unnamed()
	}
	var c config
	c.OS, c.Architecture, c.Variant = s.platform.OS, s.platform.Arch, s.platform.Variant
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{digest}
	data, err := json.Marshal(c)
	if err != nil {
		return made{}, nil, failed("describe an image", err)
	}
	src := source{id: digest, size: a.size, open: section(io.NewSectionReader(a.f, 0, a.size))}
	m := made{
		names: []string{name}, source: sourceImport, platform: s.platform, config: &c,
		digest: compose(data, []descriptor{{MediaType: kindLayer, Digest: digest, Size: a.size}}),
	}
	return m, []source{src}, nil
}

// compose is the digest of the manifest of an image that came without one.
func compose(config []byte, layers []descriptor) string {
	data, _ := json.Marshal(struct { // strings and numbers
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Config        descriptor   `json:"config"`
		Layers        []descriptor `json:"layers"`
	}{2, kindManifest, descriptor{MediaType: kindConfig, Digest: digestOf(config), Size: int64(len(config))}, layers})
	return digestOf(data)
}

func section(r *io.SectionReader) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		return io.NopCloser(&interrupted{ctx, io.NewSectionReader(r, 0, r.Size())}), nil
	}
}

func unnamed() error {
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: "the image in the archive has no name", Details: map[string]any{"field": "name"},
		Hint: "give it one: --name, or name in the query of a request",
	}
}

// several says that an archive has more than one image.
func several(names []string) error {
	slices.Sort(names)
	names = slices.Compact(names)
	shown := names[:min(len(names), someNames)]
	hint := "save one image to an archive"
	if chosen := slices.DeleteFunc(slices.Clone(shown), wholeDigest); len(chosen) > 0 {
		hint += ", or select one by name: " + strings.Join(chosen, ", ")
	}
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: "the archive has several images", Details: map[string]any{"field": "name", "available": shown},
		Hint: hint,
	}
}

// mostNames is how many names an image may bring with it.
const mostNames = 64

// nameOf makes the names in an archive those of an image; name goes before them.
func namesOf(name string, found []string) ([]string, error) {
	if name != "" {
		return []string{name}, nil
	}
	var names []string
	for _, f := range found {
		whole, err := Parse(f)
		if err != nil || whole.Digest != "" || whole.Name == runtime.HostRef {
			return nil, fault("name", "the archive calls its image %q", printable(f))
		}
		if !slices.Contains(names, whole.Name) {
			names = append(names, whole.Name)
		}
	}
	switch {
	case len(names) == 0:
		return nil, unnamed()
	case len(names) > mostNames:
		return nil, fault("name", "the archive has %d names for its image, more than %d", len(names), mostNames)
	}
	return names, nil
}
