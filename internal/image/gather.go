package image

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/fault"
	"github.com/belljar/belljar/internal/image/layer"
	"github.com/belljar/belljar/internal/image/manifest"
)

// layersAtOnce is how many layers of an image are fetched and unpacked at the same time.
const layersAtOnce = 3

// gather unpacks all layers of an image and returns them held, in their order. If the image has a layer twice, the result has it twice.
// The caller releases them.
func (ls *layers) gather(ctx context.Context, sources []manifest.Layer, report func(belljar.ImageProgress)) ([]*heldLayer, error) {
	first := map[string]int{} // layer → its first position
	held := make([]*heldLayer, len(sources))
	var sum total
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(layersAtOnce)
	for i, src := range sources {
		if _, twice := first[src.Id]; twice {
			continue
		}
		first[src.Id] = i
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			h, made, err := ls.hold(ctx, src, func(dir string) (layer.Stats, error) {
				return ls.unpack(ctx, src, dir, report)
			})
			if err != nil {
				return err
			}
			held[i] = h
			if !made {
				report(belljar.ImageProgress{Phase: belljar.ImagePulling, Layer: src.Blob(), Done: src.Size, Total: src.Size, Shared: true})
			}
			return ls.fits(sum.add(h.stats))
		})
	}
	if err := group.Wait(); err != nil {
		release(held)
		return nil, err
	}
	for i, src := range sources {
		if held[i] != nil {
			continue
		}
		held[i] = held[first[src.Id]]
		if err := ls.fits(sum.add(held[i].stats)); err != nil { // the merge links its files once more
			release(held)
			return nil, err
		}
	}
	return held, nil
}

// total sums up the layers of an image that are unpacked so far.
type total struct {
	mu    sync.Mutex
	bytes int64
	files int
}

// add adds a layer and returns the new sums.
func (t *total) add(s layer.Stats) (bytes int64, files int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes += s.Bytes
	t.files += s.Files + s.Folders + s.Symlinks + s.HardLinks + s.Whiteouts
	return t.bytes, t.files
}

// fits refuses an image that is too large as a whole, before the rest of it is unpacked. Each layer alone may be small enough.
func (ls *layers) fits(bytes int64, files int) error {
	switch {
	case bytes > ls.o.MaxBytes:
		return fault.TooLarge("bytes", ls.o.MaxBytes, "it has more than %d bytes of files", ls.o.MaxBytes)
	case files > ls.o.MaxFiles:
		return fault.TooLarge("files", int64(ls.o.MaxFiles), "it has more than %d files", ls.o.MaxFiles)
	}
	return nil
}

// release releases layers; a layer that appears twice is released once.
func release(held []*heldLayer) {
	done := map[*heldLayer]bool{}
	for _, h := range held {
		if h != nil && !done[h] {
			done[h] = true
			h.lock.release()
		}
	}
}
