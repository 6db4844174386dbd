package image

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/reference"
	"github.com/belljar/belljar/internal/runtime"
)

// Names lists the names of all images: host first, then sorted, including the operator's aliases.
func (s *Store) Names() []string {
	var names []string
	if s.o.Path != "" {
		v, err := s.index.load()
		if err != nil {
			s.disk.warn("the names of images are not known", "err", err)
			v = newView(nil)
		}
		for n := range v.byName {
			names = append(names, n)
		}
		for n, to := range s.o.Aliases {
			if r, _, err := v.find(to); err == nil && r != nil {
				names = append(names, n)
			}
		}
	}
	slices.Sort(names)
	return append([]string{runtime.HostRef}, slices.Compact(names)...)
}

// List describes every image, sorted by ref, host among them.
func (s *Store) List(ctx context.Context) ([]belljar.Image, error) {
	images := []belljar.Image{hostImage()}
	if s.o.Path == "" {
		return images, nil
	}
	v, err := s.index.load()
	if err != nil {
		return nil, err
	}
	for _, r := range v.records {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		images = append(images, s.index.image(r))
	}
	slices.SortFunc(images, func(a, b belljar.Image) int { return strings.Compare(a.Ref, b.Ref) })
	return images, nil
}

// Get describes the image called ref; [belljar.CodeNotFound] if it is missing.
func (s *Store) Get(_ context.Context, ref string) (belljar.Image, error) {
	r, err := s.lookup(ref)
	if err != nil {
		return belljar.Image{}, NotFound(err)
	}
	if r == nil {
		return hostImage(), nil
	}
	return s.index.image(r), nil
}

// NotFound turns the error of an unavailable image into a not-found error.
func NotFound(err error) error {
	var e *belljar.Error
	if errors.As(err, &e) && e.Code == belljar.CodeImageUnavailable {
		c := *e
		c.Code = belljar.CodeNotFound
		return &c
	}
	return err
}

// Tag gives the image called ref an additional name. If another image has that name, the name moves.
func (s *Store) Tag(ctx context.Context, ref, name string) (belljar.Image, error) {
	if err := reference.CheckName(name); err != nil {
		return belljar.Image{}, err
	}
	r, err := s.lookup(ref)
	if err != nil {
		return belljar.Image{}, NotFound(err)
	}
	if r == nil {
		return belljar.Image{}, RefuseHost("be given another name")
	}
	return s.fit(ctx, r.Digest, func() (belljar.Image, error) { return s.tag(ctx, r, ref, name) })
}

func (s *Store) tag(ctx context.Context, r *record, ref, name string) (belljar.Image, error) {
	var tagged *record
	err := s.index.edit(ctx, func(records []*record) ([]*record, func(), error) {
		if tagged = byDigest(records, r.Digest); tagged == nil {
			return nil, nil, NotFound(s.absent(ref)) // the image was removed meanwhile
		}
		give(records, tagged, name)
		tagged.Pulls = without(tagged.Pulls, name)
		return records, nil, nil
	})
	if err != nil {
		return belljar.Image{}, err
	}
	return s.index.image(tagged), nil
}

// give gives r a name, and takes it from any other image.
func give(records []*record, r *record, name string) {
	for _, other := range records {
		if other != r {
			other.Names, other.Pulls = without(other.Names, name), without(other.Pulls, name)
		}
	}
	if !slices.Contains(r.Names, name) {
		r.Names = append(r.Names, name)
	}
}

func byDigest(records []*record, digest string) *record {
	i := slices.IndexFunc(records, func(r *record) bool { return r.Digest == digest })
	if i < 0 {
		return nil
	}
	return records[i]
}

// RefuseHost returns the error for an attempt to change host.
func RefuseHost(what string) error {
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: "the image host cannot " + what,
		Details: map[string]any{"field": "image", "image": runtime.HostRef}, Hint: "host is the machine's own /usr",
	}
}
