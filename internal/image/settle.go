package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/fault"
	"github.com/belljar/belljar/internal/image/layer"
	"github.com/belljar/belljar/internal/image/manifest"
	"github.com/belljar/belljar/internal/image/reference"
)

// settle makes an image from its layers and adds it to the index. If the index has it already, from any process, it only gets the
// names.
func (s *Store) settle(ctx context.Context, m manifest.Image, layers []*heldLayer) (belljar.Image, error) {
	kept, err := m.Config.Kept()
	if err != nil {
		return belljar.Image{}, err
	}
	path := s.disk.in(locksFolder, "image-"+reference.ShortDigest(m.Digest))
	l, err := acquire(ctx, path, true)
	if err != nil {
		return belljar.Image{}, fault.Wrap("lock an image", err)
	}
	defer l.discard()
	if r, err := s.index.known(m.Digest); err != nil {
		return belljar.Image{}, err
	} else if r != nil {
		if img, err := s.name(ctx, m); !errors.Is(err, errGone) {
			return img, err
		}
	}
	sp, err := s.disk.space()
	if err != nil {
		return belljar.Image{}, err
	}
	defer s.disk.done(sp)
	defer s.index.reserve()
	r := &record{
		Digest: m.Digest, Also: m.Also, Folder: randomName(), Source: m.Source, Platform: m.Platform.String(), Config: kept, Added: s.disk.now().UTC(),
	}
	if m.Config.Created != nil {
		r.Created = m.Config.Created.UTC()
	}
	if err := s.build(ctx, sp.in(r.Folder), layers, r); err != nil {
		return belljar.Image{}, err
	}
	if err := layer.Sync(sp.in(r.Folder)); err != nil { // before it is in the index
		return belljar.Image{}, fault.Wrap("write an image to the disk", err)
	}
	return s.fit(ctx, m.Digest, func() (belljar.Image, error) { return s.publish(ctx, sp, m, r) })
}

// build makes an image's folder.
func (s *Store) build(ctx context.Context, dir string, layers []*heldLayer, r *record) error {
	root := filepath.Join(dir, rootFolder)
	if err := mkdir(dir, 0o711); err != nil {
		return fault.Wrap("make an image's folder", err)
	}
	if err := mkdir(root, 0o755); err != nil {
		return fault.Wrap("make an image's folder", err)
	}
	for _, name := range []string{lockFile, stampFile} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			return fault.Wrap("make an image's folder", err)
		}
	}
	if err := os.Chtimes(filepath.Join(dir, stampFile), r.Added, r.Added); err != nil {
		return fault.Wrap("make an image's folder", err)
	}
	files := make([]string, len(layers))
	for i, h := range layers {
		files[i] = h.files
		r.Layers = append(r.Layers, part{ID: h.id, Bytes: h.stats.Bytes})
	}
	for _, p := range unique(r.Layers) {
		r.Bytes += p.Bytes
	}
	if _, err := layer.Merge(ctx, root, files); err != nil {
		return fault.Wrap("make an image of its layers", err)
	}
	var err error
	r.UID, r.GID, err = resolveUser(root, r.Config.User)
	return err
}

// publish moves a finished image to its place and adds it to the index.
func (s *Store) publish(ctx context.Context, sp *space, m manifest.Image, r *record) (belljar.Image, error) {
	err := s.index.edit(ctx, func(records []*record) ([]*record, func(), error) {
		if lost := byDigest(records, r.Digest); lost != nil { // its files are gone, its names are not
			r.Names, r.Pulls, r.Also = lost.Names, lost.Pulls, append(lost.Also, r.Also...)
			records = slices.DeleteFunc(records, func(o *record) bool { return o == lost })
		}
		records = append(records, r)
		nameAll(m, records, r)
		if err := os.Rename(sp.in(r.Folder), s.index.folder(r)); err != nil {
			return nil, nil, fault.Wrap("put an image into its place", err)
		}
		back := func() { _ = os.Rename(s.index.folder(r), sp.in(r.Folder)) }
		return records, back, nil
	})
	if err != nil {
		return belljar.Image{}, err
	}
	return s.index.image(r), nil
}

// mostPulls is how many names pulls give an image: a registry can have any number of names for one. The latest count.
const mostPulls = 16

// nameAll gives r the names of m.
func nameAll(m manifest.Image, records []*record, r *record) {
	for _, n := range m.Names {
		switch had := slices.Contains(r.Names, n); {
		case m.Source != manifest.Pulled:
			r.Pulls = without(r.Pulls, n)
		case !had || slices.Contains(r.Pulls, n):
			r.Pulls = append(without(r.Pulls, n), n)
		}
		give(records, r, n)
	}
	for ; len(r.Pulls) > mostPulls; r.Pulls = r.Pulls[1:] {
		r.Names = without(r.Names, r.Pulls[0])
	}
	for _, d := range m.Also {
		if !slices.Contains(r.Also, d) {
			r.Also = append(r.Also, d)
		}
	}
	if most := 64; len(r.Also) > most { // lists change; the latest count
		r.Also = r.Also[len(r.Also)-most:]
	}
}

// finished returns the final progress report.
func finished(i belljar.Image) belljar.ImageProgress {
	return belljar.ImageProgress{Phase: belljar.ImageDone, Done: i.Bytes, Total: i.Bytes}
}
