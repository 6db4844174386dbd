package image

import (
	"context"
	"errors"
	"io"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/fault"
	"github.com/belljar/belljar/internal/image/manifest"
	"github.com/belljar/belljar/internal/image/reference"
	"github.com/belljar/belljar/internal/runtime"
)

// Pull fetches the image called ref from its registry and returns when it is ready. It reports progress (nil discards)
// meanwhile, one call at a time. It does not fetch an existing image, unless always is set: then it asks the registry for
// the current image of that name. Pull joins a pull of the same image in this process or another. A pull that no caller
// waits for ends, and leaves its unpacked layers for the next one.
//
// It fails with [belljar.CodeImageUnavailable] and the registry's reason if the image is not available, or not for this
// platform; with [belljar.CodeImageInvalid] if the data is not an image, or not an acceptable one; with
// [belljar.CodeDiskFull] if there is no room.
func (s *Store) Pull(ctx context.Context, ref string, always bool, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	target := s.alias(ref)
	if target == "" || target == runtime.HostRef {
		return s.have(nil, progress)
	}
	whole, err := reference.Parse(target)
	if err != nil && !s.tagged(target) {
		return belljar.Image{}, err
	}
	if !always || whole.Digest != "" || whole.Remote() == nil {
		r, err := s.lookup(ref)
		if err == nil {
			s.index.touch(r)
			return s.have(r, progress)
		}
		if belljar.CodeOf(err) != belljar.CodeImageUnavailable || s.o.Path == "" {
			return belljar.Image{}, err
		}
	}
	if whole.Repository == "" {
		return belljar.Image{}, reference.Invalid(target, errors.New("a digest alone cannot be pulled"))
	}
	if err := whole.Nowhere(target); err != nil {
		return belljar.Image{}, err
	}
	return s.flights.join(ctx, whole.Name, progress, func(ctx context.Context, report func(belljar.ImageProgress)) (belljar.Image, error) {
		img, err := s.pull(ctx, whole, report)
		if err != nil {
			return img, fault.Named(whole.Name, fault.Wrap("pull an image", err))
		}
		report(finished(img))
		return img, nil
	})
}

// have ends a pull of an existing image; nil is host.
func (s *Store) have(r *record, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	img := hostImage()
	if r != nil {
		img = s.index.image(r)
	}
	if progress != nil {
		progress(finished(img))
	}
	return img, nil
}

// tagged reports whether an image has this name, in any form.
func (s *Store) tagged(name string) bool {
	r, err := s.lookup(name)
	return err == nil && r != nil
}

// pull executes one pull, for all callers that wait for it.
func (s *Store) pull(ctx context.Context, ref reference.Reference, report func(belljar.ImageProgress)) (belljar.Image, error) {
	report(belljar.ImageProgress{Phase: belljar.ImageResolving})
	if err := s.sweep(ctx); err != nil {
		return belljar.Image{}, err
	}
	from, err := s.net.Connect(ctx, ref)
	if err != nil {
		return belljar.Image{}, err
	}
	id := ref.Tag
	if ref.Digest != "" {
		id = ref.Digest
	}
	choose := &manifest.Chooser{
		Want: s.platform, Name: ref.Name,
		Manifest: func(id string) ([]byte, string, error) { return from.Manifest(ctx, id) },
		Config:   func(d manifest.Descriptor) ([]byte, error) { return from.SmallBlob(ctx, d) },
	}
	m, err := choose.Resolve(id, -1, nil)
	if err != nil {
		return belljar.Image{}, err
	}
	out := manifest.Image{Digest: m.Digest, Also: m.Lists, Names: []string{ref.Name}, Source: manifest.Pulled}
	if r, err := s.index.known(m.Digest); err != nil {
		return belljar.Image{}, err
	} else if r != nil {
		if img, err := s.name(ctx, out); !errors.Is(err, errGone) {
			return img, err
		}
	}
	data, err := from.SmallBlob(ctx, m.Config)
	if err != nil {
		return belljar.Image{}, err
	}
	if out.Config, err = manifest.ParseConfig(data, len(m.Layers)); err != nil {
		return belljar.Image{}, err
	}
	if out.Platform, err = out.Config.Runs(ref.Name, s.platform); err != nil {
		return belljar.Image{}, err
	}
	out.Layers = make([]manifest.Layer, len(m.Layers))
	var size int64
	for i, l := range m.Layers {
		if size += l.Size; l.Size > s.o.MaxBytes || size > s.o.MaxBytes {
			return belljar.Image{}, fault.TooLarge("bytes", s.o.MaxBytes, "its layers have more than %d bytes as they are", s.o.MaxBytes)
		}
		out.Layers[i] = manifest.Layer{
			Id: out.Config.RootFS.DiffIDs[i], Digest: l.Digest, Size: l.Size, From: ref.Remote().Context().RegistryStr(),
			Open: func(ctx context.Context) (io.ReadCloser, error) { return from.Blob(ctx, l), nil },
		}
	}
	return s.assemble(ctx, out, report)
}

// assemble makes an image from its parts.
func (s *Store) assemble(ctx context.Context, m manifest.Image, report func(belljar.ImageProgress)) (belljar.Image, error) {
	held, err := s.layers.gather(ctx, m.Layers, report)
	if err != nil {
		return belljar.Image{}, err
	}
	defer release(held)
	return s.settle(ctx, m, held)
}
