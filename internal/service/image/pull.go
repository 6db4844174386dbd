package image

import (
	"context"
	"errors"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/image/reference"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/placement"
)

// How many pulls run at the same time on this node, how many of one user who is not an operator, and how many may wait: slow
// registries must not let some callers block all others.
const (
	pullsAtOnce  = 8
	pullsOfOne   = 3
	pullsWaiting = 256
)

// pull pulls an image when it is its turn, and records that. Concurrent pulls of an image are joined. A pull ends when no caller waits for it any longer.
func (l *Images) pull(ctx context.Context, caller belljar.Caller, p belljar.ImagePull, progress func(belljar.ImageProgress)) (got belljar.Image, err error) {
	if err := l.o.Room(ctx, ""); err != nil {
		return got, err
	}
	end, ok := l.o.Begin()
	if !ok {
		return got, fault.ShuttingDown()
	}
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.o.Closing, func() { cancel(fault.ShuttingDown()) })()
	turn, err := l.pulling.Enter(caller.ID, mostPulls(caller))
	if err != nil {
		return got, &belljar.Error{Code: belljar.CodeRateLimited, Message: "too many images are being pulled", Hint: "try again in a moment", Err: err}
	}
	defer turn.Leave()
	select {
	case <-turn.Ready():
	case <-ctx.Done():
		return got, context.Cause(ctx)
	}
	begun := l.o.Clock.Now()
	if p.Runtime == "" {
		got, err = l.o.Store.Pull(ctx, p.Ref, p.Always, progress)
	} else {
		got, err = l.enginePull(ctx, p, progress)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	err = fault.Images(err)
	l.record(event.ImagePulled, caller, event.Event{
		Runtime: p.Runtime, Took: l.o.Clock.Now().Sub(begun), Count: got.Bytes, Err: err,
		Detail: map[string]string{"image": p.Ref, "digest": got.Digest},
	})
	if err != nil {
		l.o.Log.Warn("image could not be pulled", "image", p.Ref, "runtime", p.Runtime, "user_id", caller.ID, "err", err)
	}
	return got, err
}

// mostPulls is how many concurrent pulls a caller may have; 0 is no bound.
func mostPulls(caller belljar.Caller) int {
	if caller.Admin() {
		return 0
	}
	return pullsOfOne
}

// enginePull makes a runtime's engine pull an image.
func (l *Images) enginePull(ctx context.Context, p belljar.ImagePull, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	imager := l.o.Rules.Hosts.Named(p.Runtime).Imager()
	var nowhere error
	if whole, err := reference.Parse(p.Ref); err == nil {
		nowhere = whole.Nowhere(p.Ref)
	}
	root, err := runtime.Root{}, runtime.ErrNoImage
	if !p.Always || nowhere != nil {
		root, err = imager.Image(ctx, p.Ref)
	}
	if errors.Is(err, runtime.ErrNoImage) {
		if nowhere != nil {
			return belljar.Image{}, nowhere
		}
		root, err = imager.Pull(ctx, p.Ref, progress)
	}
	if err != nil {
		return belljar.Image{}, err
	}
	return l.engineImage(ctx, p.Runtime, imager, root)
}

// Fetchable returns an error if a request may not pull this image.
func (l *Images) Fetchable(ref string) error { return l.o.Rules.Fetchable(ref) }

// Fetch pulls the image of a placement that was not local at admission.
func (l *Images) Fetch(ctx context.Context, caller belljar.Caller, p *placement.Placement) (runtime.Root, error) {
	ask := belljar.ImagePull{Ref: p.Fetch}
	if !p.Caps.Unpacked {
		ask.Runtime = p.Host.Name()
	}
	got, err := l.pull(ctx, caller, ask, nil)
	if err != nil {
		return runtime.Root{}, err
	}
	root, err := l.o.Rules.FindImage(ctx, p.Host, p.Caps, got.Digest)
	root.Ref = p.Image.Ref
	return root, err
}
