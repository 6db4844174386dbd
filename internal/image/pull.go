package image

import (
	"context"
	"errors"
	"io"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// Pull fetches the image called ref from its registry and returns when it is ready, telling progress (nil for nobody)
// meanwhile, one call at a time. One that is here is not fetched, unless always asks the registry what the name stands for
// now. What somebody else is fetching, in this process or another, is waited for; a pull that nobody waits for any more
// ends, and leaves the layers that it has unpacked for the next one.
//
// It fails with [belljar.CodeImageUnavailable] and the registry's reason if the image cannot be had, or not for this
// platform; with [belljar.CodeImageInvalid] if what comes is no image, or one that is not let in; with
// [belljar.CodeDiskFull] if there is no room.
func (s *Store) Pull(ctx context.Context, ref string, always bool, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	target := s.alias(ref)
	if target == "" || target == runtime.HostRef {
		return s.have(nil, progress)
	}
	whole, err := Parse(target)
	if err != nil && !s.tagged(target) {
		return belljar.Image{}, err
	}
	if !always || whole.Digest != "" || whole.remote == nil {
		r, err := s.lookup(ref)
		if err == nil {
			s.touch(r)
			return s.have(r, progress)
		}
		if belljar.CodeOf(err) != belljar.CodeImageUnavailable || s.o.Path == "" {
			return belljar.Image{}, err
		}
	}
	if whole.remote == nil {
		return belljar.Image{}, badReference(target, errors.New("no registry is asked for a digest alone"))
	}
	return s.flights.join(ctx, whole.Name, progress, func(ctx context.Context, tell func(belljar.ImageProgress)) (belljar.Image, error) {
		img, err := s.pull(ctx, whole, tell)
		if err != nil {
			return img, of(whole.Name, failed("pull an image", err))
		}
		tell(finished(img))
		return img, nil
	})
}

// have is the end of a pull of what is here; nil is host.
func (s *Store) have(r *record, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	img := hostImage()
	if r != nil {
		img = s.image(r)
	}
	if progress != nil {
		progress(finished(img))
	}
	return img, nil
}

// tagged reports whether somebody has given this name to an image, whatever it looks like.
func (s *Store) tagged(name string) bool {
	r, err := s.lookup(name)
	return err == nil && r != nil
}

// pull is one pull, for all who wait for it.
func (s *Store) pull(ctx context.Context, ref Reference, tell func(belljar.ImageProgress)) (belljar.Image, error) {
	tell(belljar.ImageProgress{Phase: belljar.ImageResolving})
	if err := s.sweep(ctx); err != nil {
		return belljar.Image{}, err
	}
	from, err := s.net.connect(ctx, ref)
	if err != nil {
		return belljar.Image{}, err
	}
	id := ref.Tag
	if ref.Digest != "" {
		id = ref.Digest
	}
	choose := &chooser{
		want: s.platform, what: ref.Name,
		manifest: func(id string) ([]byte, string, error) { return from.manifest(ctx, id) },
		config:   func(d descriptor) ([]byte, error) { return from.small(ctx, d) },
	}
	m, err := choose.at(id, -1, nil)
	if err != nil {
		return belljar.Image{}, err
	}
	out := made{digest: m.digest, also: m.lists, names: []string{ref.Name}, source: sourcePull}
	if r, err := s.known(m.digest); err != nil {
		return belljar.Image{}, err
	} else if r != nil {
		if img, err := s.name(ctx, out); !errors.Is(err, errGone) {
			return img, err
		}
	}
	data, err := from.small(ctx, m.Config)
	if err != nil {
		return belljar.Image{}, err
	}
	if out.config, err = parseConfig(data, len(m.Layers)); err != nil {
		return belljar.Image{}, err
	}
	if out.platform, err = s.runs(ref.Name, out.config); err != nil {
		return belljar.Image{}, err
	}
	sources := make([]source, len(m.Layers))
	var size int64
	for i, l := range m.Layers {
		if size += l.Size; l.Size > s.o.MaxBytes || size > s.o.MaxBytes {
			return belljar.Image{}, tooLarge("bytes", s.o.MaxBytes, "its layers have more than %d bytes as they are", s.o.MaxBytes)
		}
		sources[i] = source{
			id: out.config.RootFS.DiffIDs[i], digest: l.Digest, size: l.Size,
			open: func(ctx context.Context) (io.ReadCloser, error) { return from.blob(ctx, l), nil },
		}
	}
	return s.assemble(ctx, out, sources, tell)
}

// assemble makes an image of its parts.
func (s *Store) assemble(ctx context.Context, m made, sources []source, tell func(belljar.ImageProgress)) (_ belljar.Image, err error) {
	if m.layers, err = s.gather(ctx, sources, tell); err != nil {
		return belljar.Image{}, err
	}
	defer release(m.layers)
	return s.settle(ctx, m)
}

// runs refuses an image that is not for this platform.
func (s *Store) runs(what string, c *config) (platform, error) {
	is := c.platform(s.platform)
	if s.platform.rank(is) == 0 {
		return is, otherPlatform(what, s.platform, []string{printable(is.String())})
	}
	return is, nil
}
