package image

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/fault"
	"github.com/belljar/belljar/internal/image/layer"
	"github.com/belljar/belljar/internal/image/manifest"
	"github.com/belljar/belljar/internal/image/stream"
)

// unpack writes a layer's files into dir, and verifies its digests at the end. Reading, decompressing and writing run
// concurrently.
func (ls *layers) unpack(ctx context.Context, src manifest.Layer, dir string, report func(belljar.ImageProgress)) (layer.Stats, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, err := src.Open(ctx)
	if err != nil {
		return layer.Stats{}, err
	}
	raw := newMeter(in, belljar.ImageProgress{Phase: belljar.ImagePulling, Layer: src.Blob(), Total: src.Size}, report)
	packed := stream.ReadAhead(ctx, raw, in.Close)
	defer packed.Close()
	defer cancel()                                                                       // wakes readers of in
	plain, err := stream.Decompress(ctx, packed, ls.large, ls.keepIn(filepath.Dir(dir))) // next to the files
	if err != nil {
		return layer.Stats{}, ls.broken(ctx, err, src)
	}
	files := newMeter(ls.watch(plain), belljar.ImageProgress{Phase: belljar.ImageUnpacking, Layer: src.Blob()}, report)
	tar, content := io.Reader(files), packed
	if plain.Kind != "" {
		content = stream.ReadAhead(ctx, files, plain.Close)
		defer content.Close()
		defer cancel()
		tar = content
	}
	stats, err := layer.Unpack(ctx, tar, dir, layer.Options{MaxBytes: ls.o.MaxBytes, MaxFiles: ls.o.MaxFiles})
	if err == nil {
		_, err = io.Copy(io.Discard, packed) // bytes that the decompressor has not read
	}
	if err != nil {
		return stats, ls.broken(ctx, err, src)
	}
	if got := packed.Digest(); src.Digest != "" && got != src.Digest {
		return stats, fault.Invalid("digest", "layer %s has come as %s", src.Digest, got)
	}
	if got := content.Digest(); got != src.Id {
		return stats, fault.Invalid("digest", "layer %s unpacks to %s, but its config declares %s", src.Blob(), got, src.Id)
	}
	raw.end()
	files.end()
	return stats, nil
}

// broken returns why a layer could not be read to its end.
func (ls *layers) broken(ctx context.Context, err error, src manifest.Layer) error {
	var (
		e      *belljar.Error
		packed *stream.InvalidError
	)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &packed):
		return fault.Invalid("compression", "layer %s is not a valid %s: %s", src.Blob(), packed.Kind, fault.Printable(packed.Err.Error()))
	case errors.Is(err, stream.ErrTooLong):
		return fault.TooLarge("bytes", ls.o.MaxBytes, "layer %s has more than %d bytes", src.Blob(), ls.o.MaxBytes)
	case errors.As(err, &e): // without the texts of the stages in between
		rest, found := strings.CutPrefix(e.Message, "layer")
		if src.Digest == "" || !found {
			return e
		}
		named := *e
		named.Message = "layer " + src.Digest + rest // one of several
		return &named
	}
	return err
}
