package image

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
	"github.com/belljar/belljar/internal/image/reference"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/fault"
)

// view is the images as one caller sees them.
type view struct {
	*Images
	caller belljar.Caller
}

var _ belljar.Images = view{}

// As returns the images as one caller sees them.
func (l *Images) As(caller belljar.Caller) belljar.Images { return view{l, caller} }

// allowed refuses callers that are not operators.
func (v view) allowed(what string) error {
	if v.caller.Admin() {
		return nil
	}
	err := fault.Forbidden(what)
	v.o.Denied(v.caller, err)
	return err
}

// List lists Belljar's images, and those of the runtimes' engines.
func (v view) List(ctx context.Context) ([]belljar.Image, error) {
	list, err := v.o.Store.List(ctx)
	if err != nil {
		return nil, fault.Images(err)
	}
	for _, h := range v.o.Rules.Hosts {
		imager := h.Imager()
		if imager == nil {
			continue
		}
		more, err := v.engineImages(ctx, h.Name(), imager)
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

// Get describes one image: Belljar's own, else an engine's.
func (v view) Get(ctx context.Context, ref string) (belljar.Image, error) {
	if ref == "" {
		return belljar.Image{}, fault.Refuse("ref", ref, "ref names no image")
	}
	got, err := v.o.Store.Get(ctx, ref)
	if err == nil || belljar.CodeOf(err) != belljar.CodeNotFound {
		return got, fault.Images(err)
	}
	for _, h := range v.o.Rules.Hosts {
		imager := h.Imager()
		if imager == nil {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, admission.EngineTimeout)
		root, failed := imager.Image(asking, ref)
		if failed == nil {
			got, failed = v.engineImage(asking, h.Name(), imager, root)
		}
		cancel()
		if failed == nil {
			return got, nil
		}
	}
	return belljar.Image{}, err
}

// Pull pulls an image. Users may do so if requests may, but they may not use an engine's store, because engines do not apply the
// rules about sources, and they may not replace an image that an operator has provided.
func (v view) Pull(ctx context.Context, p belljar.ImagePull, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	if err := v.mayPull(ctx, p); err != nil {
		v.o.Denied(v.caller, err)
		return belljar.Image{}, err
	}
	if p.Runtime != "" {
		c, err := v.o.Rules.Pick(ctx, p.Runtime)
		if err != nil {
			return belljar.Image{}, err
		}
		if c.Host.Imager() == nil {
			return belljar.Image{}, fault.Refuse("runtime", p.Runtime, fmt.Sprintf("runtime %s has no images of its own: leave runtime out", p.Runtime))
		}
	}
	if got, err := v.o.Store.Get(ctx, p.Ref); err == nil && !p.Always && p.Runtime == "" {
		return got, nil // pulled or imported
	}
	if r, err := reference.Parse(p.Ref); err != nil {
		return belljar.Image{}, err
	} else if r.Repository == "" {
		return belljar.Image{}, fault.Refuse("ref", p.Ref, "ref is in no registry")
	}
	got, err := v.pull(ctx, v.caller, p, progress)
	return got, fault.Images(err)
}

// mayPull reports whether the caller may pull an image.
func (v view) mayPull(ctx context.Context, p belljar.ImagePull) error {
	if p.Ref == "" {
		return fault.Refuse("ref", p.Ref, "ref names no image")
	}
	if v.caller.Admin() {
		return nil
	}
	if p.Runtime != "" {
		return fault.Forbidden("have the engine of a runtime fetch images")
	}
	if err := v.o.Rules.MayUse(ctx, p.Ref); err != nil {
		return err
	}
	here, err := v.o.Store.Get(ctx, p.Ref)
	if err == nil && p.Always && here.Source != "pull" {
		return fault.Forbidden("replace an image that was not pulled")
	}
	if err == nil && !p.Always {
		return nil
	}
	if v.o.Rules.Policy.ImagePull == admission.PullNever {
		return v.o.Rules.Fetchable(p.Ref)
	}
	return nil
}

// Import reads an image.
func (v view) Import(ctx context.Context, name string, r io.Reader, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	err := v.allowed("import images")
	if err == nil {
		err = v.o.Room(ctx, "")
	}
	if err != nil {
		return belljar.Image{}, err
	}
	begun := v.o.Clock.Now()
	got, err := v.o.Store.Import(ctx, name, r, progress)
	err = fault.Images(err)
	v.record(event.ImageImported, v.caller, event.Event{
		Took: v.o.Clock.Now().Sub(begun), Count: got.Bytes, Err: err, Detail: map[string]string{"image": cmp.Or(name, got.Ref), "digest": got.Digest},
	})
	return got, err
}

// Tag gives an image one more name.
func (v view) Tag(ctx context.Context, ref, name string) (belljar.Image, error) {
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
	got, err := v.o.Store.Tag(ctx, ref, name)
	if err != nil {
		return belljar.Image{}, fault.Images(err)
	}
	v.record(event.ImageTagged, v.caller, event.Event{Detail: map[string]string{"image": name, "digest": got.Digest}})
	return got, nil
}

// Remove removes a name, and with the last name the image.
func (v view) Remove(ctx context.Context, ref string) error {
	if err := v.allowed("remove images"); err != nil {
		return err
	}
	if ref == "" {
		return fault.Refuse("ref", ref, "ref names no image")
	}
	here, err := v.o.Store.Get(ctx, ref)
	if err != nil {
		return fault.Images(err)
	}
	err = v.o.Store.Remove(ctx, ref)
	if belljar.CodeOf(err) == belljar.CodeConflict && v.release(ctx, here.Digest) {
		err = v.o.Store.Remove(ctx, ref)
	}
	if belljar.CodeOf(err) == belljar.CodeConflict {
		err = v.removeLater(ctx, ref, here.Digest, err)
	}
	if err != nil {
		return v.inUse(fault.Images(err), here.Digest)
	}
	v.record(event.ImageRemoved, v.caller, event.Event{Detail: map[string]string{"image": ref, "digest": here.Digest}})
	return nil
}

// How long and how often to retry the removal of an image that is busy only because a finished run's sandbox is still being torn down.
const (
	removeWait = 10 * time.Second
	removeLook = 20 * time.Millisecond
)

// removeLater removes an image as soon as the teardowns that use it have finished. err is why it could not be removed.
func (l *Images) removeLater(ctx context.Context, ref, digest string, err error) error {
	ctx, cancel := context.WithTimeout(ctx, removeWait)
	defer cancel()
	again := time.NewTicker(removeLook)
	defer again.Stop()
	for belljar.CodeOf(err) == belljar.CodeConflict {
		if sessions, runs := l.o.Users(digest); len(sessions)+len(runs) > 0 {
			return err
		}
		select {
		case <-again.C:
			err = l.o.Store.Remove(ctx, ref)
		case <-ctx.Done():
			return err
		}
	}
	return err
}

// Prune removes unused images.
func (v view) Prune(ctx context.Context, p belljar.ImagePrune) (belljar.ImagePruned, error) {
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
	return v.pruneImages(ctx, v.caller, p)
}

func (l *Images) pruneImages(ctx context.Context, caller belljar.Caller, p belljar.ImagePrune) (belljar.ImagePruned, error) {
	gone, err := l.o.Store.Prune(ctx, p)
	if err == nil && p.All && l.releaseAll(ctx) {
		var more belljar.ImagePruned
		more, err = l.o.Store.Prune(ctx, p)
		gone.Images, gone.Bytes = append(gone.Images, more.Images...), gone.Bytes+more.Bytes
	}
	if len(gone.Images) > 0 {
		l.record(event.ImagesPruned, caller, event.Event{
			Count: gone.Bytes, Files: int64(len(gone.Images)), Detail: map[string]string{"digests": strings.Join(gone.Images, " ")},
		})
	}
	return gone, fault.Images(err)
}

// Sweep removes the images that have been unused for as long as the operator keeps them, and the least recently used above the cap.
func (l *Images) Sweep(ctx context.Context) error {
	if l.o.Unused <= 0 && l.o.Keep <= 0 {
		return nil
	}
	p := belljar.ImagePrune{UnusedSec: max(l.o.Unused, 0).Seconds(), KeepBytes: max(l.o.Keep, 0)}
	if _, err := l.pruneImages(ctx, belljar.Caller{Source: "sweep"}, p); err != nil {
		return fmt.Errorf("sweep images: %w", err)
	}
	return nil
}

// engineImages lists the images of a runtime's engine. If the engine does not respond, it logs that and returns none.
func (l *Images) engineImages(ctx context.Context, name string, imager runtime.Imager) ([]belljar.Image, error) {
	ctx, cancel := context.WithTimeout(ctx, admission.EngineTimeout)
	defer cancel()
	list, err := imager.Images(ctx)
	if err != nil {
		l.o.Log.Warn("images of an engine could not be listed", "runtime", name, "err", err)
	}
	for i := range list {
		list[i].Runtime, list[i].Source = name, cmp.Or(list[i].Source, "engine")
	}
	return list, err
}

// engineImage describes an image of a runtime's engine.
func (l *Images) engineImage(ctx context.Context, name string, imager runtime.Imager, root runtime.Root) (belljar.Image, error) {
	list, err := l.engineImages(ctx, name, imager)
	if err != nil {
		return belljar.Image{}, err
	}
	for _, i := range list {
		if i.Digest == root.Digest && i.Digest != "" || i.Ref == root.Name || slices.Contains(i.Names, root.Name) || slices.Contains(i.Names, root.Ref) {
			i.Digest = cmp.Or(root.Digest, i.Digest) // of the repository that a request names; the list has that of the first
			return i, nil
		}
	}
	return belljar.Image{
		Ref: root.Ref, Names: []string{root.Ref}, Digest: root.Digest, Runtime: name, Source: "engine",
		Config: belljar.ImageConfig{Env: root.Env, WorkingDir: root.WorkingDir},
	}, nil
}

// release makes runtimes release an image that no sandbox uses, and reports whether one did.
func (l *Images) release(ctx context.Context, digest string) bool {
	released := false
	for _, h := range l.o.Rules.Hosts {
		if r, ok := runtime.As[runtime.Releaser](h.Runtime); ok {
			released = r.Release(ctx, digest) || released
		}
	}
	return released
}

// releaseAll makes runtimes release the images that are in use, and reports whether one did.
func (l *Images) releaseAll(ctx context.Context) bool {
	list, err := l.o.Store.List(ctx)
	if err != nil {
		return false // the images stay, like those in use
	}
	released := false
	for _, i := range list {
		if i.InUse {
			released = l.release(ctx, i.Digest) || released
		}
	}
	return released
}

// inUse adds the image's users, as far as they are known here, to a refusal to remove it.
func (l *Images) inUse(err error, digest string) error {
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeConflict {
		return err
	}
	refusal := *e
	refusal.Details = maps.Clone(e.Details)
	if refusal.Details == nil {
		refusal.Details = map[string]any{}
	}
	sessions, runs := l.o.Users(digest)
	if len(sessions) > 0 {
		refusal.Details["sessions"], refusal.Hint = sessions, "end its sessions first, or wait until they expire"
		refusal.Message += ": by session " + strings.Join(sessions[:min(3, len(sessions))], ", ")
	}
	if len(runs) > 0 {
		refusal.Details["runs"] = runs
	}
	return &refusal
}

// record records an event of an image.
func (l *Images) record(name string, caller belljar.Caller, e event.Event) {
	e.Name, e.Caller = name, caller
	l.o.Record(e)
}
