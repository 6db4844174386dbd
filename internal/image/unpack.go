package image

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/layer"
)

// unpack writes a layer's files into dir, and finds out at the end whether it was the layer that it should be. Reading,
// decompressing and writing go on at the same time.
func (s *Store) unpack(ctx context.Context, src source, dir string, tell func(belljar.ImageProgress)) (layer.Stats, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, err := src.open(ctx)
	if err != nil {
		return layer.Stats{}, err
	}
	raw := newMeter(in, belljar.ImageProgress{Phase: belljar.ImagePulling, Layer: src.blobID(), Total: src.size}, tell)
	packed := newAhead(ctx, raw, in.Close)
	defer packed.Close()
	defer cancel() // wakes who waits for in
	plain, err := decompress(ctx, packed, s.large)
	if err != nil {
		return layer.Stats{}, s.broken(ctx, err, src)
	}
	files := newMeter(s.watch(plain), belljar.ImageProgress{Phase: belljar.ImageUnpacking, Layer: src.blobID()}, tell)
	tar, content := io.Reader(files), packed
	if plain.kind != "" {
		content = newAhead(ctx, files, plain.Close)
		defer content.Close()
		defer cancel()
		tar = content
	}
	stats, err := layer.Unpack(ctx, tar, dir, layer.Options{MaxBytes: s.o.MaxBytes, MaxFiles: s.o.MaxFiles})
	if err == nil {
		_, err = io.Copy(io.Discard, packed) // what the decompressor has not asked for
	}
	if err != nil {
		return stats, s.broken(ctx, err, src)
	}
	if got := packed.digest(); src.digest != "" && got != src.digest {
		return stats, fault("digest", "layer %s has come as %s", src.digest, got)
	}
	if got := content.digest(); got != src.id {
		return stats, fault("digest", "layer %s unpacks to %s, but its config declares %s", src.blobID(), got, src.id)
	}
	raw.end()
	files.end()
	return stats, nil
}

// broken says why a layer could not be read to its end.
func (s *Store) broken(ctx context.Context, err error, src source) error {
	var (
		e      *belljar.Error
		packed *packedError
	)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &packed):
		return fault("compression", "layer %s is not a valid %s: %s", src.blobID(), packed.kind, printable(packed.err.Error()))
	case errors.As(err, &e): // without what the stages on its way have said
		rest, found := strings.CutPrefix(e.Message, "layer")
		if src.digest == "" || !found {
			return e
		}
		named := *e
		named.Message = "layer " + src.digest + rest // one of several
		return &named
	}
	return err
}
