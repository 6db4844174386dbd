package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/store"
)

// engineTime bounds a question to a runtime's engine, which may be slow or gone.
const engineTime = 5 * time.Second

// settleImage decides about the image of a plan's sandbox: it is one that is here, pinned by its digest from now on, or one
// that is fetched while the sandbox is made. An image that is neither, or that the runtime cannot use, is refused.
func (s *Service) settleImage(ctx context.Context, p *plan, pin string) error {
	ref := cmp.Or(p.request.BaseImage, runtime.HostRef)
	root, err := s.findImage(ctx, p.host, p.caps, cmp.Or(pin, ref))
	if as := pinned(ref, pin); as != ref && belljar.CodeOf(err) == belljar.CodeImageUnavailable {
		root, err = s.findImage(ctx, p.host, p.caps, as) // engines know no digest alone
	}
	if err == nil {
		p.image = root
		p.image.Ref = ref
		return nil
	}
	if belljar.CodeOf(err) != belljar.CodeImageUnavailable {
		return err
	}
	if ref == runtime.HostRef || !p.caps.Unpacked && p.host.imager() == nil {
		return s.unusable(ctx, p.host, p.caps, ref)
	}
	if why := s.fetchable(ref); why != nil {
		return missing(err, why)
	}
	p.image, p.fetch = runtime.Root{Ref: ref, Digest: pin}, pinned(ref, pin)
	return nil
}

// findImage returns an image that is here, for a runtime: one of Belljar's own, else one of the runtime's engine.
// [belljar.CodeImageUnavailable] if it is neither.
func (s *Service) findImage(ctx context.Context, h *host, caps runtime.Capabilities, ref string) (runtime.Root, error) {
	if ref == runtime.HostRef {
		if !caps.HostImage {
			return runtime.Root{}, s.unusable(ctx, h, caps, ref)
		}
		return runtime.Root{Ref: ref}, nil
	}
	found, err := s.opts.Images.Find(ctx, ref)
	if err == nil && caps.Unpacked {
		root := found.Runtime()
		root.WorkingDir = found.Config.WorkingDir
		return root, nil
	}
	imager := h.imager()
	if imager == nil {
		if err == nil {
			err = s.unusable(ctx, h, caps, ref)
		}
		return runtime.Root{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	root, asked := imager.Image(ctx, ref)
	switch {
	case asked == nil:
		return root, nil
	case err == nil:
		return runtime.Root{}, s.unusable(ctx, h, caps, ref)
	case errors.Is(asked, runtime.ErrNoImage), belljar.CodeOf(err) != belljar.CodeImageUnavailable:
		return runtime.Root{}, err
	case belljar.CodeOf(asked) != belljar.CodeInternal:
		return runtime.Root{}, asked
	}
	e := &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: "the engine of runtime " + h.Name() + " could not be asked for the image", Err: asked,
		Details: map[string]any{"runtime": h.Name(), "image": ref}, Hint: "belljar doctor says how the engine is",
	}
	if step := (*runtime.StepError)(nil); errors.As(h.explain(ctx, asked), &step) && step.Hint != "" {
		e.Message, e.Hint = e.Message+": "+step.Err.Error(), step.Hint
	}
	return runtime.Root{}, e
}

// imager is the runtime's engine, if it keeps images of its own; nil if not.
func (h *host) imager() runtime.Imager {
	i, _ := runtime.As[runtime.Imager](h.Runtime)
	return i
}

// unusable refuses an image that a runtime has no use for, and names the runtimes that have.
func (s *Service) unusable(ctx context.Context, not *host, its runtime.Capabilities, ref string) error {
	could := []string{}
	for _, h := range s.runtimes {
		if h == not {
			continue
		}
		caps, err := h.capabilities(ctx)
		if err == nil && caps.Available && (ref == runtime.HostRef && caps.HostImage || ref != runtime.HostRef && caps.Unpacked) {
			could = append(could, h.Name())
		}
	}
	e := &belljar.Error{
		Code: belljar.CodeImageUnavailable, Message: fmt.Sprintf("runtime %s cannot use image %q", not.Name(), ref),
		Details: map[string]any{"image": ref, "runtime": not.Name(), "suggested": could, "available": s.imagesFor(its)},
	}
	if len(could) > 0 {
		e.Hint = "runtimes that can: " + strings.Join(could, ", ")
	}
	return e
}

// missing says that an image is not here and why it is not fetched.
func missing(absent, why error) error {
	var e, reason *belljar.Error
	if !errors.As(absent, &e) || !errors.As(why, &reason) {
		return absent
	}
	told := *e
	if belljar.CodeOf(why) == belljar.CodePolicyDenied {
		told.Hint = strings.TrimSuffix(reason.Hint+"; "+e.Hint, "; ")
	} else {
		told.Details = map[string]any{"reason": reason.Message}
		for name, value := range e.Details {
			told.Details[name] = value
		}
	}
	return &told
}

// pinned is a reference by which a registry gives that content; with no digest it is the reference itself.
func pinned(ref, digest string) string {
	r, err := image.Parse(ref)
	if err != nil || digest == "" || r.Digest != "" || r.Repository == "" {
		return ref
	}
	return r.Repository + "@" + digest
}

// noteImage is what is put on record of a sandbox's image, for the next process.
func noteImage(root runtime.Root) *store.Image {
	if root.Ref == runtime.HostRef && root.GoCache == "" {
		return nil
	}
	return &store.Image{GoCache: root.GoCache != "", Env: slices.Clone(root.Env), WorkingDir: root.WorkingDir, UID: root.UID, GID: root.GID}
}

// imageAgain is the image of a sandbox that a former process made: what was on record then, whatever the name stands for
// now and although the image may be gone.
func imageAgain(ref, digest string, noted *store.Image) runtime.Root {
	root := runtime.Root{Ref: ref, Digest: digest}
	if noted != nil {
		root.Env, root.WorkingDir, root.UID, root.GID = noted.Env, noted.WorkingDir, noted.UID, noted.GID
		if noted.GoCache {
			root.GoCache = runtime.GoCacheDir // it is there, and programs are told so; from where it came no longer matters
		}
	}
	return root
}
