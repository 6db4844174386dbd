package image

import (
	"context"
	"errors"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/layer"
)

// layersAtOnce is how many layers of an image are fetched and unpacked at the same time.
const layersAtOnce = 3

// source is where a layer comes from.
type source struct {
	id     string // digest of the uncompressed tar; what it must be
	digest string // of what open returns; "" for id's own
	size   int64  // of what open returns
	open   func(ctx context.Context) (io.ReadCloser, error)
}

// blobID is what the layer is called in progress.
func (s source) blobID() string {
	if s.digest == "" {
		return s.id
	}
	return s.digest
}

// gather has all layers of an image unpacked and returns them held, in their order, one that the image has twice twice.
// The caller lets go of them.
func (s *Store) gather(ctx context.Context, sources []source, tell func(belljar.ImageProgress)) ([]*heldLayer, error) {
	first := map[string]int{} // layer → where it is first
	held := make([]*heldLayer, len(sources))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(layersAtOnce)
	for i, src := range sources {
		if _, twice := first[src.id]; twice {
			continue
		}
		first[src.id] = i
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			h, made, err := s.holdLayer(ctx, src.id, func(dir string) (layer.Stats, error) {
				return s.unpack(ctx, src, dir, tell)
			})
			if err != nil {
				return err
			}
			held[i] = h
			if !made {
				tell(belljar.ImageProgress{Phase: belljar.ImagePulling, Layer: src.blobID(), Done: src.size, Total: src.size, Shared: true})
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		release(held)
		return nil, err
	}
	var bytes int64
	files := 0
	for i, src := range sources {
		if held[i] == nil {
			held[i] = held[first[src.id]]
			continue
		}
		bytes += held[i].stats.Bytes
		files += entries(held[i].stats)
	}
	if err := s.fits(bytes, files); err != nil {
		release(held)
		return nil, err
	}
	return held, nil
}

func entries(s layer.Stats) int { return s.Files + s.Folders + s.Symlinks + s.HardLinks + s.Whiteouts }

// fits refuses an image that is too large as a whole; each of its layers may have been small enough.
func (s *Store) fits(bytes int64, files int) error {
	switch {
	case bytes > s.o.MaxBytes:
		return tooLarge("bytes", s.o.MaxBytes, "it has more than %d bytes of files", s.o.MaxBytes)
	case files > s.o.MaxFiles:
		return tooLarge("files", int64(s.o.MaxFiles), "it has more than %d files", s.o.MaxFiles)
	}
	return nil
}

func tooLarge(rule string, limit int64, format string, args ...any) error {
	err := fault(rule, format, args...)
	var e *belljar.Error
	if errors.As(err, &e) {
		e.Details["limit"] = limit
	}
	return err
}

// release lets go of layers; twice is once.
func release(held []*heldLayer) {
	done := map[*heldLayer]bool{}
	for _, h := range held {
		if h != nil && !done[h] {
			done[h] = true
			h.lock.release()
		}
	}
}
