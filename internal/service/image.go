package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/fault"
)

// images is the root file systems as one caller sees them.
type images struct{ view }

var _ belljar.Images = images{}

// List lists the images that Belljar has, and those of the runtimes' engines.
func (v images) List(ctx context.Context) ([]belljar.Image, error) {
	list, err := v.service.opts.Images.List(ctx)
	if err != nil {
		return nil, fault.Images(err)
	}
	for _, h := range v.service.hosts {
		imager := h.Imager()
		if imager == nil {
			continue
		}
		more, err := v.service.engineImages(ctx, h.Name(), imager)
		if err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		list = append(list, more...)
	}
	slices.SortStableFunc(list, func(a, b belljar.Image) int {
		return cmp.Or(cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.Runtime, b.Runtime))
	})
	return list, nil
}

// Get describes one image: Belljar's own, or else an engine's.
func (v images) Get(ctx context.Context, ref string) (belljar.Image, error) {
	if ref == "" {
		return belljar.Image{}, fault.Refuse("ref", ref, "ref names no image")
	}
	got, err := v.service.opts.Images.Get(ctx, ref)
	if err == nil || belljar.CodeOf(err) != belljar.CodeNotFound {
		return got, fault.Images(err)
	}
	for _, h := range v.service.hosts {
		imager := h.Imager()
		if imager == nil {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, admission.EngineTime)
		root, failed := imager.Image(asking, ref)
		if failed == nil {
			got, failed = v.service.engineImage(asking, h.Name(), imager, root)
		}
		cancel()
		if failed == nil {
			return got, nil
		}
	}
	return belljar.Image{}, err
}

// Pull fetches an image. Users may where requests may, but not have an engine fetch it, which keeps no rules of ours about
// where from, and not put another in the place of one that an operator has brought.
func (v images) Pull(ctx context.Context, p belljar.ImagePull, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	s := v.service
	if err := v.mayPull(ctx, p); err != nil {
		s.denied(v.caller, err)
		return belljar.Image{}, err
	}
	if p.Runtime != "" {
		c, err := s.rules.Pick(ctx, p.Runtime)
		if err != nil {
			return belljar.Image{}, err
		}
		if c.Host.Imager() == nil {
			return belljar.Image{}, fault.Refuse("runtime", p.Runtime, fmt.Sprintf("runtime %s has no images of its own: leave runtime out", p.Runtime))
		}
	}
	if got, err := s.opts.Images.Get(ctx, p.Ref); err == nil && !p.Always && p.Runtime == "" {
		return got, nil // fetched or imported
	}
	if r, err := image.Parse(p.Ref); err != nil {
		return belljar.Image{}, err
	} else if r.Repository == "" {
		return belljar.Image{}, fault.Refuse("ref", p.Ref, "ref is in no registry")
	}
	got, err := s.pull(ctx, v.caller, p, progress)
	return got, fault.Images(err)
}

// mayPull says whether the caller may fetch an image.
func (v images) mayPull(ctx context.Context, p belljar.ImagePull) error {
	if p.Ref == "" {
		return fault.Refuse("ref", p.Ref, "ref names no image")
	}
	if v.caller.Admin() {
		return nil
	}
	if p.Runtime != "" {
		return fault.Forbidden("have the engine of a runtime fetch images")
	}
	if err := v.service.rules.MayUse(ctx, p.Ref); err != nil {
		return err
	}
	here, err := v.service.opts.Images.Get(ctx, p.Ref)
	if err == nil && p.Always && here.Source != "pull" {
		return fault.Forbidden("replace an image that was not pulled")
	}
	if err == nil && !p.Always {
		return nil
	}
	if v.service.opts.Policy.ImagePull == admission.PullNever {
		return v.service.rules.Fetchable(p.Ref)
	}
	return nil
}

// Import reads an image.
func (v images) Import(ctx context.Context, name string, r io.Reader, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	s := v.service
	err := v.allowed("import images")
	if err == nil {
		err = s.accounts.Room(ctx, "")
	}
	if err != nil {
		return belljar.Image{}, err
	}
	begun := s.clock.Now()
	got, err := s.opts.Images.Import(ctx, name, r, progress)
	err = fault.Images(err)
	s.imageEvent(event.ImageImported, v.caller, event.Event{
		Took: s.clock.Now().Sub(begun), Count: got.Bytes, Err: err, Detail: map[string]string{"image": cmp.Or(name, got.Ref), "digest": got.Digest},
	})
	return got, err
}

// Tag gives an image one more name.
func (v images) Tag(ctx context.Context, ref, name string) (belljar.Image, error) {
	if err := v.allowed("give images names"); err != nil {
		return belljar.Image{}, err
	}
	if ref == "" || name == "" {
		field := "ref"
		if ref != "" {
			field = "name"
		}
		return belljar.Image{}, fault.Refuse(field, "", field+" is empty")
	}
	got, err := v.service.opts.Images.Tag(ctx, ref, name)
	if err != nil {
		return belljar.Image{}, fault.Images(err)
	}
	v.service.imageEvent(event.ImageTagged, v.caller, event.Event{Detail: map[string]string{"image": name, "digest": got.Digest}})
	return got, nil
}

// Remove takes a name away, and with its last one the image.
func (v images) Remove(ctx context.Context, ref string) error {
	s := v.service
	if err := v.allowed("remove images"); err != nil {
		return err
	}
	if ref == "" {
		return fault.Refuse("ref", ref, "ref names no image")
	}
	here, err := s.opts.Images.Get(ctx, ref)
	if err != nil {
		return fault.Images(err)
	}
	err = s.opts.Images.Remove(ctx, ref)
	if belljar.CodeOf(err) == belljar.CodeConflict && s.release(ctx, here.Digest) {
		err = s.opts.Images.Remove(ctx, ref)
	}
	if belljar.CodeOf(err) == belljar.CodeConflict {
		err = s.removeLater(ctx, ref, here.Digest, err)
	}
	if err != nil {
		return s.inUse(fault.Images(err), here.Digest)
	}
	s.imageEvent(event.ImageRemoved, v.caller, event.Event{Detail: map[string]string{"image": ref, "digest": here.Digest}})
	return nil
}

// How long and how often an image that is in use is looked at again of which nobody has anything that lives: a run's sandbox
// goes behind its answer.
const (
	removeWait = 10 * time.Second
	removeLook = 20 * time.Millisecond
)

// removeLater removes an image as soon as what is going has gone. err is why it could not be removed.
func (s *Service) removeLater(ctx context.Context, ref, digest string, err error) error {
	ctx, cancel := context.WithTimeout(ctx, removeWait)
	defer cancel()
	again := time.NewTicker(removeLook)
	defer again.Stop()
	for belljar.CodeOf(err) == belljar.CodeConflict {
		if sessions, runs := s.usersOf(digest); len(sessions)+len(runs) > 0 {
			return err
		}
		select {
		case <-again.C:
			err = s.opts.Images.Remove(ctx, ref)
		case <-ctx.Done():
			return err
		}
	}
	return err
}

// Prune removes what is not used.
func (v images) Prune(ctx context.Context, p belljar.ImagePrune) (belljar.ImagePruned, error) {
	s := v.service
	if err := v.allowed("remove images"); err != nil {
		return belljar.ImagePruned{}, err
	}
	switch {
	case p.UnusedSec < 0 || math.IsNaN(p.UnusedSec) || p.UnusedSec > math.MaxInt64/1e9:
		return belljar.ImagePruned{}, fault.Refuse("unused_sec", p.UnusedSec, "unused_sec must not be negative")
	case p.KeepBytes < 0:
		return belljar.ImagePruned{}, fault.Refuse("keep_bytes", p.KeepBytes, "keep_bytes must not be negative")
	case p.UnusedSec == 0 && p.KeepBytes == 0 && !p.All:
		return belljar.ImagePruned{}, fault.Refuse("unused_sec", 0, "say what may go: unused_sec, keep_bytes or all")
	}
	return s.pruneImages(ctx, v.caller, p)
}

func (s *Service) pruneImages(ctx context.Context, caller belljar.Caller, p belljar.ImagePrune) (belljar.ImagePruned, error) {
	gone, err := s.opts.Images.Prune(ctx, p)
	if err == nil && p.All && s.releaseAll(ctx) {
		var more belljar.ImagePruned
		more, err = s.opts.Images.Prune(ctx, p)
		gone.Images, gone.Bytes = append(gone.Images, more.Images...), gone.Bytes+more.Bytes
	}
	if len(gone.Images) > 0 {
		s.imageEvent(event.ImagesPruned, caller, event.Event{
			Count: gone.Bytes, Files: int64(len(gone.Images)), Detail: map[string]string{"digests": strings.Join(gone.Images, " ")},
		})
	}
	return gone, fault.Images(err)
}

// sweepImages removes the images that nobody has used for as long as the operator keeps them, and those that are too many.
func (s *Service) sweepImages(ctx context.Context) error {
	if s.opts.ImageUnused <= 0 && s.opts.ImageKeep <= 0 {
		return nil
	}
	p := belljar.ImagePrune{UnusedSec: max(s.opts.ImageUnused, 0).Seconds(), KeepBytes: max(s.opts.ImageKeep, 0)}
	if _, err := s.pruneImages(ctx, belljar.Caller{Source: "sweep"}, p); err != nil {
		return fmt.Errorf("sweep images: %w", err)
	}
	return nil
}

// engineImages lists what a runtime's engine has. One that does not answer is said in the log, and has none.
func (s *Service) engineImages(ctx context.Context, name string, imager runtime.Imager) ([]belljar.Image, error) {
	ctx, cancel := context.WithTimeout(ctx, admission.EngineTime)
	defer cancel()
	list, err := imager.Images(ctx)
	if err != nil {
		s.log.Warn("images of an engine could not be listed", "runtime", name, "err", err)
	}
	for i := range list {
		list[i].Runtime, list[i].Source = name, cmp.Or(list[i].Source, "engine")
	}
	return list, err
}

// engineImage describes an image of a runtime's engine.
func (s *Service) engineImage(ctx context.Context, name string, imager runtime.Imager, root runtime.Root) (belljar.Image, error) {
	list, err := s.engineImages(ctx, name, imager)
	if err != nil {
		return belljar.Image{}, err
	}
	for _, i := range list {
		if i.Digest == root.Digest && i.Digest != "" || i.Ref == root.Name || slices.Contains(i.Names, root.Name) || slices.Contains(i.Names, root.Ref) {
			return i, nil
		}
	}
	return belljar.Image{
		Ref: root.Ref, Names: []string{root.Ref}, Digest: root.Digest, Runtime: name, Source: "engine",
		Config: belljar.ImageConfig{Env: root.Env, WorkingDir: root.WorkingDir},
	}, nil
}

// release has runtimes let go of an image that nobody's sandboxes have, and reports whether one did.
func (s *Service) release(ctx context.Context, digest string) bool {
	released := false
	for _, h := range s.hosts {
		if r, ok := runtime.As[runtime.Releaser](h.Runtime); ok {
			released = r.Release(ctx, digest) || released
		}
	}
	return released
}

// releaseAll has runtimes let go of the images that are still here, and reports whether one did.
func (s *Service) releaseAll(ctx context.Context) bool {
	list, err := s.opts.Images.List(ctx)
	if err != nil {
		return false // they stay, as those do that are used
	}
	released := false
	for _, i := range list {
		if i.InUse {
			released = s.release(ctx, i.Digest) || released
		}
	}
	return released
}

// inUse completes a refusal to remove an image: with who uses it, as far as that is known here.
func (s *Service) inUse(err error, digest string) error {
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeConflict {
		return err
	}
	told := *e
	told.Details = maps.Clone(e.Details)
	if told.Details == nil {
		told.Details = map[string]any{}
	}
	sessions, runs := s.usersOf(digest)
	if len(sessions) > 0 {
		told.Details["sessions"], told.Hint = sessions, "end its sessions first, or wait until they expire"
		told.Message += ": by session " + strings.Join(sessions[:min(3, len(sessions))], ", ")
	}
	if len(runs) > 0 {
		told.Details["runs"] = runs
	}
	return &told
}

// usersOf are the living sessions and the runs in sandboxes of their own that have an image.
func (s *Service) usersOf(digest string) (sessions, runs []string) {
	for _, x := range s.sessions.all() {
		if x.snapshot().ImageDigest == digest {
			sessions = append(sessions, x.id)
		}
	}
	s.mu.Lock()
	under := slices.Collect(maps.Values(s.runs))
	s.mu.Unlock()
	for _, r := range under {
		if state := r.snapshot(); state.ImageDigest == digest && state.SessionID == "" {
			runs = append(runs, r.id)
		}
	}
	slices.Sort(sessions)
	slices.Sort(runs)
	return sessions, runs
}

// imageEvent records something that was done with an image.
func (s *Service) imageEvent(name string, caller belljar.Caller, e event.Event) {
	e.Name, e.Time, e.Caller, e.Component = name, s.clock.Now(), caller, component
	s.opts.Events.Record(e)
}
