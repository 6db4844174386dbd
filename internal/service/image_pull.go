package service

import (
	"context"
	"errors"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/placement"
)

// How many pulls there are at a time on this node, and how many of one user who is no operator: registries may be as slow as
// they like, and must not keep everybody from all others. Others wait for their turn, so many at most.
const (
	pullsAtOnce  = 8
	pullsOfOne   = 3
	pullsWaiting = 256
)

// pull fetches an image when it is its turn, and says so. What somebody else is fetching is waited for; a pull that nobody
// waits for any more ends.
func (s *Service) pull(ctx context.Context, caller belljar.Caller, p belljar.ImagePull, progress func(belljar.ImageProgress)) (got belljar.Image, err error) {
	if err := s.accounts.Room(ctx, ""); err != nil {
		return got, err
	}
	if !s.employ(func() { s.work.Add(1) }) {
		return got, fault.ShuttingDown()
	}
	defer s.work.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.closing, func() { cancel(fault.ShuttingDown()) })()
	turn, err := s.pulling.Enter(caller.ID, mostPulls(caller))
	if err != nil {
		return got, &belljar.Error{Code: belljar.CodeRateLimited, Message: "too many images are being pulled", Hint: "try again in a moment", Err: err}
	}
	defer turn.Leave()
	select {
	case <-turn.Ready():
	case <-ctx.Done():
		return got, context.Cause(ctx)
	}
	begun := s.clock.Now()
	if p.Runtime == "" {
		got, err = s.opts.Images.Pull(ctx, p.Ref, p.Always, progress)
	} else {
		got, err = s.enginePull(ctx, p, progress)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	err = fault.Images(err)
	s.imageEvent(event.ImagePulled, caller, event.Event{
		Runtime: p.Runtime, Took: s.clock.Now().Sub(begun), Count: got.Bytes, Err: err,
		Detail: map[string]string{"image": p.Ref, "digest": got.Digest},
	})
	if err != nil {
		s.log.Warn("image could not be pulled", "image", p.Ref, "runtime", p.Runtime, "user_id", caller.ID, "err", err)
	}
	return got, err
}

// mostPulls is how many images a caller may have pulled at a time; 0 is no bound.
func mostPulls(caller belljar.Caller) int {
	if caller.Admin() {
		return 0
	}
	return pullsOfOne
}

// enginePull has a runtime's engine fetch an image.
func (s *Service) enginePull(ctx context.Context, p belljar.ImagePull, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	imager := s.hosts.Named(p.Runtime).Imager()
	root, err := runtime.Root{}, runtime.ErrNoImage
	if !p.Always {
		root, err = imager.Image(ctx, p.Ref)
	}
	if errors.Is(err, runtime.ErrNoImage) {
		root, err = imager.Pull(ctx, p.Ref, progress)
	}
	if err != nil {
		return belljar.Image{}, err
	}
	return s.engineImage(ctx, p.Runtime, imager, root)
}

// fetcher makes the images of sandboxes ready.
type fetcher struct{ *Service }

// Fetchable reports, by an error, why an image is not fetched for a request.
func (f fetcher) Fetchable(ref string) error { return f.rules.Fetchable(ref) }

// Fetch makes the image of a placement ready that was not here when it was admitted.
func (f fetcher) Fetch(ctx context.Context, caller belljar.Caller, p *placement.Placement) (runtime.Root, error) {
	ask := belljar.ImagePull{Ref: p.Fetch}
	if !p.Caps.Unpacked {
		ask.Runtime = p.Host.Name()
	}
	got, err := f.pull(ctx, caller, ask, nil)
	if err != nil {
		return runtime.Root{}, err
	}
	root, err := f.rules.FindImage(ctx, p.Host, p.Caps, got.Digest)
	root.Ref = p.Image.Ref
	return root, err
}
