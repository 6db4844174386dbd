package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// Remove takes the name ref away, and with an image's last name, or by digest, the image and the layers that no other
// one has. [belljar.CodeConflict] while a sandbox uses it, [belljar.CodeNotFound] if there is none.
func (s *Store) Remove(ctx context.Context, ref string) error {
	if ref == "" || ref == runtime.HostRef {
		return HostStays("be removed")
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
	return s.relieved(func() error {
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

// remove takes away a name of the image that pick finds, or all of it if that is its only one or none is given. It returns
// the bytes that were freed.
func (s *Store) remove(ctx context.Context, pick func(*view) (*record, string, error)) (int64, error) {
	sp, err := s.space()
	if err != nil {
		return 0, err
	}
	defer s.done(sp) // deletes, after all locks are let go
	var gone *record
	err = s.edit(ctx, func(records []*record) ([]*record, func(), error) {
		r, name, err := pick(newView(records))
		if err != nil {
			return nil, nil, err
		}
		if rest := without(r.Names, name); name != "" && len(rest) > 0 {
			r.Names = rest
			return records, nil, nil
		}
		if err := s.takeAway(ctx, r, sp); err != nil {
			return nil, nil, err
		}
		gone = r
		back := func() { _ = os.Rename(sp.in(r.Folder), s.folder(r)) }
		return slices.DeleteFunc(records, func(o *record) bool { return o == r }), back, nil
	})
	if err != nil || gone == nil {
		return 0, err
	}
	s.touched.Delete(gone.Folder)
	var freed int64
	for _, p := range gone.Layers {
		n, err := s.dropLayer(p.ID, sp)
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

// How often and how long takeAway looks at a lock again: who only wants to know whether an image is used holds it for
// a moment.
const (
	looks    = 5
	lookWait = 5 * time.Millisecond
)

// takeAway moves an image that nobody uses into a space.
func (s *Store) takeAway(ctx context.Context, r *record, sp *space) error {
	for i := 0; ; i++ {
		err := s.moveImage(r.Folder, sp)
		if !errors.Is(err, errBusy) {
			return failed("move an image out of the way", err)
		}
		if i == looks {
			return inUse(r)
		}
		if err := sleep(ctx, lookWait); err != nil {
			return err
		}
	}
}

func inUse(r *record) error {
	return &belljar.Error{
		Code: belljar.CodeConflict, Message: fmt.Sprintf("image %q is in use", r.ref()),
		Details: map[string]any{"image": r.ref(), "digest": r.Digest}, Hint: "end the sandboxes that use it first",
	}
}

// dropLayer moves a layer that no image has into a space and returns its bytes. One that somebody is just making an
// image of stays.
func (s *Store) dropLayer(id string, sp *space) (int64, error) {
	l, err := tryLock(s.layerLock(id), true)
	if errors.Is(err, errBusy) {
		return 0, nil
	}
	if err != nil {
		return 0, failed("lock a layer", err)
	}
	v, err := s.index.load() // under the lock: who makes an image of a layer holds it until the index has the image
	if err != nil || v.uses(id) {
		l.release()
		return 0, err
	}
	stats, err := s.layerStats(id)
	if err == nil {
		err = os.Rename(s.layerFolder(id), sp.in(layerPrefix+shortID(id)))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.release()
		return 0, failed("move a layer out of the way", err)
	}
	l.discard()
	return stats.Bytes, nil
}
