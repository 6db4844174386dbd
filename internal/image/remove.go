package image

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// Remove removes the name ref. With an image's last name, or by digest, it removes the image and the layers that no other
// one has. [belljar.CodeConflict] while a sandbox uses it, [belljar.CodeNotFound] if it is missing.
func (s *Store) Remove(ctx context.Context, ref string) error {
	if ref == "" || ref == runtime.HostRef {
		return RefuseHost("be removed")
	}
	if to, ok := s.o.Aliases[ref]; ok {
		return &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("%q is an alias in the configuration", ref),
			Details: map[string]any{"field": "image", "image": ref, "stands_for": to}, Hint: "remove " + to + ", or the alias from the configuration",
		}
	}
	if s.o.Path == "" {
		return NotFound(s.absent(ref))
	}
	return s.index.relieved(func() error {
		_, err := s.remove(ctx, func(v *view) (*record, string, error) {
			r, name, err := v.find(ref)
			if err == nil && r == nil {
				err = NotFound(s.absent(ref))
			}
			return r, name, err
		})
		return err
	})
}

// remove removes the name that pick returns, or the whole image if that is its only name or pick returns none. It returns
// the number of bytes freed.
func (s *Store) remove(ctx context.Context, pick func(*view) (*record, string, error)) (int64, error) {
	sp, err := s.disk.space()
	if err != nil {
		return 0, err
	}
	defer s.disk.done(sp) // deletes the files after all locks are released
	var gone *record
	err = s.index.edit(ctx, func(records []*record) ([]*record, func(), error) {
		r, name, err := pick(newView(records))
		if err != nil {
			return nil, nil, err
		}
		if rest := without(r.Names, name); name != "" && len(rest) > 0 {
			r.Names = rest
			return records, nil, nil
		}
		if err := s.index.moveUnused(ctx, r, sp); err != nil {
			return nil, nil, err
		}
		gone = r
		back := func() { _ = os.Rename(sp.in(r.Folder), s.index.folder(r)) }
		return slices.DeleteFunc(records, func(o *record) bool { return o == r }), back, nil
	})
	if err != nil || gone == nil {
		return 0, err
	}
	s.index.touched.Delete(gone.Folder)
	var freed int64
	for _, p := range gone.Layers {
		n, err := s.layers.drop(p.ID, sp)
		if err != nil {
			return freed, err
		}
		freed += n
	}
	return freed, nil
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

func inUse(r *record) error {
	return &belljar.Error{
		Code: belljar.CodeConflict, Message: fmt.Sprintf("image %q is in use", r.ref()),
		Details: map[string]any{"image": r.ref(), "digest": r.Digest}, Hint: "end the sandboxes that use it first",
	}
}
