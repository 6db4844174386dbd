package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/layer"
)

// made is an image whose layers are here: all but its root.
type made struct {
	digest   string
	also     []string // digests of the lists that have led to it
	names    []string
	source   string
	platform platform
	config   *config
	layers   []*heldLayer
}

// known returns the image of a digest if it is here as a whole.
func (s *Store) known(digest string) (*record, error) {
	v, err := s.index.load()
	if err != nil {
		return nil, err
	}
	for _, r := range v.records {
		if r.Digest == digest && s.present(r) {
			return r, nil
		}
	}
	return nil, nil
}

// settle makes an image of its layers and puts it into the index; if it is there, by whomever, it gets the names only.
func (s *Store) settle(ctx context.Context, m made) (belljar.Image, error) {
	kept, err := m.config.kept()
	if err != nil {
		return belljar.Image{}, err
	}
	path := s.path(locksFolder, "image-"+shortID(m.digest))
	l, err := acquire(ctx, path, true)
	if err != nil {
		return belljar.Image{}, failed("lock an image", err)
	}
	defer l.discard()
	if r, err := s.known(m.digest); err != nil {
		return belljar.Image{}, err
	} else if r != nil {
		if img, err := s.name(ctx, m); !errors.Is(err, errGone) {
			return img, err
		}
	}
	sp, err := s.space()
	if err != nil {
		return belljar.Image{}, err
	}
	defer s.done(sp)
	defer s.reserve()
	r := &record{
		Digest: m.digest, Also: m.also, Folder: randomName(), Source: m.source, Platform: m.platform.String(), Config: kept, Added: s.now().UTC(),
	}
	if m.config.Created != nil {
		r.Created = m.config.Created.UTC()
	}
	if err := s.build(ctx, sp.in(r.Folder), m, r); err != nil {
		return belljar.Image{}, err
	}
	return s.publish(ctx, sp, m, r)
}

// build makes an image's folder.
func (s *Store) build(ctx context.Context, dir string, m made, r *record) error {
	root := filepath.Join(dir, rootFolder)
	if err := mkdir(dir, 0o711); err != nil {
		return failed("make an image's folder", err)
	}
	if err := mkdir(root, 0o755); err != nil {
		return failed("make an image's folder", err)
	}
	for _, name := range []string{lockFile, stampFile} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			return failed("make an image's folder", err)
		}
	}
	if err := os.Chtimes(filepath.Join(dir, stampFile), r.Added, r.Added); err != nil {
		return failed("make an image's folder", err)
	}
	files := make([]string, len(m.layers))
	for i, h := range m.layers {
		files[i] = h.files
		r.Layers = append(r.Layers, part{ID: h.id, Bytes: h.stats.Bytes})
	}
	for _, p := range unique(r.Layers) {
		r.Bytes += p.Bytes
	}
	if _, err := layer.Merge(ctx, root, files); err != nil {
		return failed("make an image of its layers", err)
	}
	var err error
	r.UID, r.GID, err = resolveUser(root, r.Config.User)
	return err
}

// publish puts a finished image where all can see it.
func (s *Store) publish(ctx context.Context, sp *space, m made, r *record) (belljar.Image, error) {
	err := s.edit(ctx, func(records []*record) ([]*record, func(), error) {
		if lost := byDigest(records, r.Digest); lost != nil { // its files are gone, its names are not
			r.Names, r.Also = lost.Names, append(lost.Also, r.Also...)
			records = slices.DeleteFunc(records, func(o *record) bool { return o == lost })
		}
		records = append(records, r)
		m.nameAll(records, r)
		if err := os.Rename(sp.in(r.Folder), s.folder(r)); err != nil {
			return nil, nil, failed("put an image into its place", err)
		}
		back := func() { _ = os.Rename(s.folder(r), sp.in(r.Folder)) }
		return records, back, nil
	})
	if err != nil {
		return belljar.Image{}, err
	}
	return s.image(r), nil
}

// name gives an image that is here the names of one that turned out to be the same.
func (s *Store) name(ctx context.Context, m made) (belljar.Image, error) {
	var named *record
	err := s.edit(ctx, func(records []*record) ([]*record, func(), error) {
		if named = byDigest(records, m.digest); named == nil {
			return nil, nil, errGone
		}
		m.nameAll(records, named)
		return records, nil, nil
	})
	if err != nil {
		return belljar.Image{}, err
	}
	now := s.now()
	if err := os.Chtimes(filepath.Join(s.folder(named), stampFile), now, now); err != nil {
		s.warn("the time of an image's last use could not be written down", "image", named.ref(), "err", err)
	}
	return s.image(named), nil
}

func (m made) nameAll(records []*record, r *record) {
	for _, n := range m.names {
		give(records, r, n)
	}
	for _, d := range m.also {
		if !slices.Contains(r.Also, d) {
			r.Also = append(r.Also, d)
		}
	}
	if most := 64; len(r.Also) > most { // lists come and go; those of late count
		r.Also = r.Also[len(r.Also)-most:]
	}
}

// finished is the last word of progress.
func finished(i belljar.Image) belljar.ImageProgress {
	return belljar.ImageProgress{Phase: belljar.ImageDone, Done: i.Bytes, Total: i.Bytes}
}
