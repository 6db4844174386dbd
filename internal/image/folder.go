package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/manifest"
)

func (x *index) folder(r *record) string { return x.in(imagesFolder, r.Folder) }

func (x *index) root(r *record) Root {
	dir := x.folder(r)
	return Root{
		Ref: r.ref(), Digest: r.Digest, Dir: filepath.Join(dir, rootFolder), Lock: filepath.Join(dir, lockFile),
		Config: r.Config, UID: r.UID, GID: r.GID,
	}
}

// image converts a record. To find out whether the image is used, it checks the lock.
func (x *index) image(r *record) belljar.Image {
	dir := x.folder(r)
	return belljar.Image{
		Ref: r.ref(), Names: append([]string{}, r.Names...), Digest: r.Digest, Source: r.Source, Platform: r.Platform,
		Bytes: r.Bytes, Layers: len(r.Layers), Config: r.Config, CreatedAt: r.Created, AddedAt: r.Added,
		LastUsedAt: stamped(filepath.Join(dir, stampFile)).Truncate(time.Minute), InUse: x.held(r),
	}
}

// present reports whether the files of an image are in place: they may have been deleted by hand. An error of the disk counts as
// present.
func (x *index) present(r *record) bool {
	_, err := os.Lstat(filepath.Join(x.folder(r), rootFolder))
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
}

// held reports whether an image is used.
func (x *index) held(r *record) bool {
	x.looking.Lock()
	defer x.looking.Unlock()
	return held(filepath.Join(x.folder(r), lockFile))
}

// known returns the image of a digest if it is in the store and complete.
func (x *index) known(digest string) (*record, error) {
	v, err := x.load()
	if err != nil {
		return nil, err
	}
	for _, r := range v.records {
		if r.Digest == digest && x.present(r) {
			return r, nil
		}
	}
	return nil, nil
}

// uses returns when each image was last used; images that sandboxes hold are used now.
func (x *index) uses(v *view) map[*record]time.Time {
	used := make(map[*record]time.Time, len(v.records))
	for _, r := range v.records {
		if x.held(r) {
			x.touch(r)
		}
		used[r] = stamped(filepath.Join(x.folder(r), stampFile))
		if used[r].IsZero() {
			used[r] = r.Added
		}
	}
	return used
}

// name gives a known image the names of another that turned out to be the same.
func (s *Store) name(ctx context.Context, m manifest.Image) (belljar.Image, error) {
	return s.fit(ctx, m.Digest, func() (belljar.Image, error) { return s.index.name(ctx, m) })
}

func (x *index) name(ctx context.Context, m manifest.Image) (belljar.Image, error) {
	var named *record
	err := x.edit(ctx, func(records []*record) ([]*record, func(), error) {
		if named = byDigest(records, m.Digest); named == nil {
			return nil, nil, errGone
		}
		nameAll(m, records, named)
		return records, nil, nil
	})
	if err != nil {
		return belljar.Image{}, err
	}
	now := x.now()
	if err := os.Chtimes(filepath.Join(x.folder(named), stampFile), now, now); err != nil {
		x.warn("the time of an image's last use could not be written down", "image", named.ref(), "err", err)
	}
	return x.image(named), nil
}
