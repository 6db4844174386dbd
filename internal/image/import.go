package image

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/archive"
	"github.com/belljar/belljar/internal/image/fault"
	"github.com/belljar/belljar/internal/image/reference"
	"github.com/belljar/belljar/internal/image/stream"
	"github.com/belljar/belljar/internal/runtime"
)

// Import reads an image from r: an OCI layout or a docker save archive, as tar, or a tar of a root file system. Each may be
// compressed with gzip or zstd. name is the image's name, and selects the image of that name if there are several. If name
// is "", the image gets the names in the archive. Import refuses an archive of several images without a selection, and an
// image without any name. If the manifest's annotation [SourceAnnotation] states that the image was built, it is listed as
// built. If ctx ends while r is being read, r may be read once more.
func (s *Store) Import(ctx context.Context, name string, r io.Reader, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	if s.o.Path == "" {
		return belljar.Image{}, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "images are not kept here", Hint: "give the server a data folder"}
	}
	if name != "" {
		whole, err := reference.Parse(name)
		if err == nil && (whole.Digest != "" || whole.Name == runtime.HostRef) {
			err = reference.CheckName(name)
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
	reports := &listener{to: progress}
	defer reports.end()
	img, err := s.importTar(ctx, name, r, reports.report)
	if err != nil {
		err = fault.Wrap("import an image", err)
		if belljar.CodeOf(err) == belljar.CodeDiskFull {
			err = fault.Named(cmp.Or(name, "in the archive"), err)
		}
		return img, err
	}
	reports.report(finished(img))
	return img, nil
}

func (s *Store) importTar(ctx context.Context, name string, r io.Reader, report func(belljar.ImageProgress)) (belljar.Image, error) {
	if err := s.sweep(ctx); err != nil {
		return belljar.Image{}, err
	}
	sp, err := s.disk.space()
	if err != nil {
		return belljar.Image{}, err
	}
	defer s.disk.done(sp)
	f, err := os.OpenFile(sp.in("archive"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return belljar.Image{}, fault.Wrap("keep the archive", err)
	}
	defer f.Close()
	digest, size, err := s.spool(ctx, f, r, s.disk.keepIn(sp.dir), report)
	if err != nil {
		return belljar.Image{}, err
	}
	a := &archive.Archive{File: f, Size: size, Digest: digest, MaxFiles: s.o.MaxFiles, Platform: s.platform}
	m, err := a.Image(ctx, name)
	if err != nil {
		return belljar.Image{}, err
	}
	img, err := s.assemble(ctx, m, report)
	if err == nil {
		img.Ref = m.Names[0] // also if the image existed under another name
	}
	return img, err
}

// spool writes an archive to a file, uncompressed. keep is for [stream.Decompress].
func (s *Store) spool(
	ctx context.Context, f *os.File, r io.Reader, keep func(io.Reader) (io.ReadCloser, error), report func(belljar.ImageProgress),
) (digest string, size int64, err error) {
	raw := newMeter(stream.WithContext(ctx, r), belljar.ImageProgress{Phase: belljar.ImagePulling}, report)
	come := stream.ReadAhead(ctx, raw, nothing)
	defer come.Abandon() // a reader that waits for a person may not return
	u, err := stream.Decompress(ctx, come, s.layers.large, keep)
	if err != nil {
		return "", 0, s.unread(ctx, err)
	}
	in := stream.ReadAhead(ctx, stream.Limit(s.disk.watch(u), s.o.mostBytes()), u.Close)
	defer in.Abandon()
	size, err = io.Copy(f, struct{ io.Reader }{in})
	if err != nil {
		return "", 0, s.unread(ctx, err)
	}
	raw.end()
	return in.Digest(), size, nil
}

func nothing() error { return nil }

// unread returns why an archive could not be read completely.
func (s *Store) unread(ctx context.Context, err error) error {
	var packed *stream.InvalidError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &packed):
		return fault.Invalid("compression", "it is not a valid %s: %s", packed.Kind, fault.Printable(packed.Err.Error()))
	case errors.Is(err, stream.ErrTooLong):
		return fault.TooLarge("bytes", s.o.MaxBytes, "the archive has more than %d bytes", s.o.MaxBytes)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fault.Invalid("archive", "it is cut off")
	}
	return fault.Wrap("read the archive", err)
}
