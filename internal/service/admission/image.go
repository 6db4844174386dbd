package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/placement"
)

// EngineTimeout bounds a request to a runtime's engine, which may be slow or unavailable.
const EngineTimeout = 5 * time.Second

// settleImage decides about the image of a plan's sandbox: a local image, which it pins by its digest, or one that is
// pulled while the sandbox is made. It refuses any other image, and an image that the runtime cannot use.
func (r *Rules) settleImage(ctx context.Context, p *placement.Placement, name, pin string) error {
	ref := cmp.Or(name, runtime.HostRef)
	root, err := r.FindImage(ctx, p.Host, p.Caps, cmp.Or(pin, ref))
	if as := placement.Pinned(ref, pin); as != ref && belljar.CodeOf(err) == belljar.CodeImageUnavailable {
		root, err = r.FindImage(ctx, p.Host, p.Caps, as) // engines do not know a digest without a name
	}
	if err == nil {
		p.Image = root
		p.Image.Ref = ref
		return nil
	}
	if belljar.CodeOf(err) != belljar.CodeImageUnavailable {
		return err
	}
	if ref == runtime.HostRef || !p.Caps.Unpacked && p.Host.Imager() == nil {
		return r.unusable(ctx, p.Host, p.Caps, ref)
	}
	if why := r.Fetchable(ref); why != nil {
		var bad *belljar.Error
		if errors.As(why, &bad) && bad.Code == belljar.CodeInvalidRequest { // not a valid image name
			refused := *bad
			refused.Details = map[string]any{"field": "base_image", "provided": ref}
			return &refused
		}
		return missing(err, why)
	}
	p.Image, p.Fetch = runtime.Root{Ref: ref, Digest: pin}, placement.Pinned(ref, pin)
	return nil
}

// FindImage returns a local image for a runtime: one of Belljar's own, else one of the runtime's engine.
// [belljar.CodeImageUnavailable] if it is neither.
func (r *Rules) FindImage(ctx context.Context, h *placement.Host, caps runtime.Capabilities, ref string) (runtime.Root, error) {
	if ref == runtime.HostRef {
		if !caps.HostImage {
			return runtime.Root{}, r.unusable(ctx, h, caps, ref)
		}
		return runtime.Root{Ref: ref}, nil
	}
	found, err := r.Images.Find(ctx, ref)
	if err == nil && caps.Unpacked {
		root := found.Runtime()
		root.WorkingDir = found.Config.WorkingDir
		return root, nil
	}
	imager := h.Imager()
	if imager == nil {
		if err == nil {
			err = r.unusable(ctx, h, caps, ref)
		}
		return runtime.Root{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, EngineTimeout)
	defer cancel()
	root, asked := imager.Image(ctx, ref)
	switch {
	case asked == nil:
		return root, nil
	case err == nil:
		return runtime.Root{}, r.unusable(ctx, h, caps, ref)
	case errors.Is(asked, runtime.ErrNoImage), belljar.CodeOf(err) != belljar.CodeImageUnavailable:
		return runtime.Root{}, err
	case belljar.CodeOf(asked) != belljar.CodeInternal:
		return runtime.Root{}, asked
	}
	e := &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: "the engine of runtime " + h.Name() + " could not be queried for the image", Err: asked,
		Details: map[string]any{"runtime": h.Name(), "image": ref}, Hint: "belljar doctor reports the engine's state",
	}
	if step := (*runtime.StepError)(nil); errors.As(h.Explain(ctx, asked), &step) && step.Hint != "" {
		e.Message, e.Hint = e.Message+": "+step.Err.Error(), step.Hint
	}
	return runtime.Root{}, e
}

// unusable refuses an image that a runtime cannot use, and names the runtimes that can.
func (r *Rules) unusable(ctx context.Context, not *placement.Host, its runtime.Capabilities, ref string) error {
	could := []string{}
	for _, h := range r.Hosts {
		if h == not {
			continue
		}
		caps, err := h.Capabilities(ctx)
		if err == nil && caps.Available && (ref == runtime.HostRef && caps.HostImage || ref != runtime.HostRef && caps.Unpacked) {
			could = append(could, h.Name())
		}
	}
	e := &belljar.Error{
		Code: belljar.CodeImageUnavailable, Message: fmt.Sprintf("runtime %s cannot use image %q", not.Name(), ref),
		Details: map[string]any{"image": ref, "runtime": not.Name(), "suggested": could, "available": r.ImagesFor(its)},
	}
	if len(could) > 0 {
		e.Hint = "runtimes that can: " + strings.Join(could, ", ")
	}
	return e
}

// missing reports that an image is not local and why it is not pulled.
func missing(absent, why error) error {
	var e, reason *belljar.Error
	if !errors.As(absent, &e) || !errors.As(why, &reason) {
		return absent
	}
	refusal := *e
	if belljar.CodeOf(why) == belljar.CodePolicyDenied {
		refusal.Hint = strings.TrimSuffix(reason.Hint+"; "+e.Hint, "; ")
	} else {
		refusal.Hint = cmp.Or(reason.Hint, e.Hint)
		refusal.Details = map[string]any{"reason": reason.Message}
		maps.Copy(refusal.Details, e.Details)
	}
	return &refusal
}

// ImagesFor returns the names of Belljar's images that a runtime can use.
func (r *Rules) ImagesFor(caps runtime.Capabilities) []string {
	names := []string{}
	for _, name := range r.Images.Names() {
		if name == runtime.HostRef && caps.HostImage || name != runtime.HostRef && caps.Unpacked {
			names = append(names, name)
		}
	}
	return names
}
