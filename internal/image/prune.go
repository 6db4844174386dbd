package image

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/manifest"
)

// Prune removes images that no sandbox uses: all, or those not used for p.UnusedSec, and then the least recently used
// until the rest has at most p.KeepBytes. It also removes layers that no image has, even if it removes no image. The
// request must set at least one bound, and All alone.
func (s *Store) Prune(ctx context.Context, p belljar.ImagePrune) (belljar.ImagePruned, error) {
	done := belljar.ImagePruned{Images: []string{}}
	if err := CheckPrune(p); err != nil || s.o.Path == "" {
		return done, err
	}
	err := s.index.relieved(func() error { return s.prune(ctx, p, &done) })
	return done, err
}

// prune adds its results to done.
func (s *Store) prune(ctx context.Context, p belljar.ImagePrune, done *belljar.ImagePruned) error {
	if err := s.sweep(ctx); err != nil {
		return err
	}
	v, err := s.index.load()
	if err != nil {
		return err
	}
	used := s.index.uses(v)
	for _, r := range candidates(v, p, used, s.disk.now()) {
		freed, err := s.evict(ctx, r)
		switch {
		case errors.Is(err, errGone):
			continue
		case belljar.CodeOf(err) == belljar.CodeConflict:
			continue
		case err != nil:
			return err
		}
		done.Images = append(done.Images, r.Digest)
		done.Bytes += freed
	}
	freed, err := s.layers.prune(ctx, 0)
	done.Bytes += freed
	return err
}

// evict removes an image unless it is used, and returns the number of bytes freed.
func (s *Store) evict(ctx context.Context, r *record) (int64, error) {
	return s.remove(ctx, func(v *view) (*record, string, error) {
		if now := v.byDigest[r.Digest]; now != nil && now.Folder == r.Folder {
			return now, "", nil
		}
		return nil, "", errGone
	})
}

// fit calls add, which writes to the index about the image of a digest. While the index is full, it removes the pulled image that was used least
// recently, apart from that one, and calls add again: one caller's images must not keep those of others out.
func (s *Store) fit(ctx context.Context, digest string, add func() (belljar.Image, error)) (belljar.Image, error) {
	img, err := add()
	if !errors.Is(err, errFull) {
		return img, err
	}
	v, failed := s.index.load()
	if failed != nil {
		return img, failed
	}
	for _, r := range candidates(v, belljar.ImagePrune{All: true}, s.index.uses(v), s.disk.now()) {
		if r.Source != manifest.Pulled || r.Digest == digest {
			continue
		}
		if _, failed := s.evict(ctx, r); failed != nil {
			if errors.Is(failed, errGone) || belljar.CodeOf(failed) == belljar.CodeConflict {
				continue
			}
			return img, failed
		}
		s.disk.warn("the list of images is full: an unused image was removed", "image", r.ref())
		if img, err = add(); !errors.Is(err, errFull) {
			break
		}
	}
	return img, err
}

// errGone means that the image was removed meanwhile.
var errGone = errors.New("the image is gone")

// CheckPrune refuses a request to prune that sets no bound, or too many.
func CheckPrune(p belljar.ImagePrune) error {
	bounds := p.UnusedSec != 0 || p.KeepBytes != 0
	switch {
	case p.UnusedSec < 0 || p.KeepBytes < 0 || p.UnusedSec != p.UnusedSec:
		return &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "a bound is negative", Details: map[string]any{"field": "unused_sec, keep_bytes"}}
	case p.All == bounds:
		return &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: "say which images may go", Details: map[string]any{"field": "unused_sec, keep_bytes, all"},
			Hint: "give unused_sec, keep_bytes or both, or all and no other",
		}
	}
	return nil
}

// candidates lists the images to remove unless a sandbox uses them, least recently used first.
func candidates(v *view, p belljar.ImagePrune, used map[*record]time.Time, now time.Time) (out []*record) {
	records := slices.Clone(v.records)
	slices.SortStableFunc(records, func(a, b *record) int {
		return cmp.Or(used[a].Compare(used[b]), cmp.Compare(a.Digest, b.Digest))
	})
	if p.All {
		return records
	}
	holders := map[string]int{} // layer → images that have it
	var total int64
	for _, r := range records {
		for _, l := range unique(r.Layers) {
			if holders[l.ID]++; holders[l.ID] == 1 {
				total += l.Bytes
			}
		}
	}
	for _, r := range records {
		old := p.UnusedSec > 0 && now.Sub(used[r]).Seconds() >= p.UnusedSec
		if !old && (p.KeepBytes == 0 || total <= p.KeepBytes) {
			continue
		}
		out = append(out, r)
		for _, l := range unique(r.Layers) {
			if holders[l.ID]--; holders[l.ID] == 0 {
				total -= l.Bytes
			}
		}
	}
	return out
}

// unique removes the duplicates of layers that an image has twice.
func unique(parts []part) []part {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(parts), func(p part) bool {
		twice := seen[p.ID]
		seen[p.ID] = true
		return twice
	})
}
