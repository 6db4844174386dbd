package image

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/belljar/belljar"
)

// Prune removes images that no sandbox uses: all, or those not used for p.UnusedSec, and then those used longest ago
// until the rest has no more than p.KeepBytes. Layers that no image has go too, whether an image goes or not. At least
// one bound is given, and All with no other.
func (s *Store) Prune(ctx context.Context, p belljar.ImagePrune) (belljar.ImagePruned, error) {
	done := belljar.ImagePruned{Images: []string{}}
	if err := CheckPrune(p); err != nil || s.o.Path == "" {
		return done, err
	}
	err := s.relieved(func() error { return s.prune(ctx, p, &done) })
	return done, err
}

// prune adds to what is done.
func (s *Store) prune(ctx context.Context, p belljar.ImagePrune, done *belljar.ImagePruned) error {
	if err := s.sweep(ctx); err != nil {
		return err
	}
	v, err := s.index.load()
	if err != nil {
		return err
	}
	used := s.uses(v)
	for _, r := range candidates(v, p, used, s.now()) {
		freed, err := s.remove(ctx, func(v *view) (*record, string, error) {
			if now := v.byDigest[r.Digest]; now != nil && now.Folder == r.Folder {
				return now, "", nil
			}
			return nil, "", errGone
		})
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
	freed, err := s.pruneLayers(ctx, 0)
	done.Bytes += freed
	return err
}

// errGone says that an image that was to go has gone by itself.
var errGone = errors.New("the image is gone")

// CheckPrune refuses a request to prune that says nothing, or too much.
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

// uses reads when each image was used last; those that sandboxes have are used now.
func (s *Store) uses(v *view) map[*record]time.Time {
	used := make(map[*record]time.Time, len(v.records))
	for _, r := range v.records {
		if held(filepath.Join(s.folder(r), lockFile)) {
			s.touch(r)
		}
		used[r] = stamped(filepath.Join(s.folder(r), stampFile))
		if used[r].IsZero() {
			used[r] = r.Added
		}
	}
	return used
}

// candidates lists the images that are to go if nobody uses them, those used longest ago first.
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

// unique leaves out layers that an image has twice.
func unique(parts []part) []part {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(parts), func(p part) bool {
		twice := seen[p.ID]
		seen[p.ID] = true
		return twice
	})
}

// pruneLayers deletes layers of pulls that came to nothing, if they were unpacked so long ago.
func (s *Store) pruneLayers(ctx context.Context, idle time.Duration) (freed int64, err error) {
	ids, err := s.idleLayers(idle)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	sp, err := s.space()
	if err != nil {
		return 0, err
	}
	defer s.done(sp)
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return freed, err
		}
		n, err := s.dropLayer(id, sp)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return freed, err
		}
		freed += n
	}
	return freed, nil
}

// idleLayers lists the layers that no image has, unpacked so long ago.
func (s *Store) idleLayers(idle time.Duration) (ids []string, err error) {
	entries, err := os.ReadDir(s.path(layersFolder))
	if err != nil {
		return nil, failed("look for layers", err)
	}
	v, err := s.index.load()
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, r := range v.records {
		for _, l := range r.Layers {
			used[l.ID] = true
		}
	}
	for _, e := range entries {
		id := "sha256:" + e.Name()
		if !wholeDigest(id) || used[id] {
			continue
		}
		if idle > 0 && s.now().Sub(stamped(filepath.Join(s.layerFolder(id), statsFile))) < idle {
			continue
		}
		ids = append(ids, id)
	}
	return ids, nil
}
