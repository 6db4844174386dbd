package service

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
)

// How many pulls there are at a time on this node, and how many of one user who is no operator: registries may be as slow as
// they like, and must not keep everybody from all others. Others wait for their turn, so many at most.
const (
	pullsAtOnce  = 8
	pullsOfOne   = 3
	pullsWaiting = 256
)

// fetchError is why the image of a sandbox could not be had.
type fetchError struct{ err error }

func (e *fetchError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *fetchError) Unwrap() error { return e.err }

// told is what its caller hears of it.
func (e *fetchError) told() *belljar.Error {
	var own *belljar.Error
	if errors.As(imageError(e.err), &own) && own.Code != belljar.CodeInternal {
		return own
	}
	return &belljar.Error{Code: belljar.CodeImageUnavailable, Message: "the image could not be made ready", Err: e.err, Hint: "the server's log says why"}
}

// of is what the caller of a session hears of it.
func (e *fetchError) of(x *session) error {
	told := *e.told()
	told.Details = maps.Clone(told.Details)
	if told.Details == nil {
		told.Details = map[string]any{}
	}
	told.Details["session_id"] = x.id
	return &told
}

// pull fetches an image when it is its turn, and says so. What somebody else is fetching is waited for; a pull that nobody
// waits for any more ends.
func (s *Service) pull(ctx context.Context, caller belljar.Caller, p belljar.ImagePull, progress func(belljar.ImageProgress)) (got belljar.Image, err error) {
	if err := s.room(ctx, ""); err != nil {
		return got, err
	}
	if !s.employ(func() { s.work.Add(1) }) {
		return got, shuttingDown()
	}
	defer s.work.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.closing, func() { cancel(shuttingDown()) })()
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
	err = imageError(err)
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
	imager := s.runtime(p.Runtime).imager()
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

// fetchImage makes the image of a plan ready that was not here when it was admitted.
func (s *Service) fetchImage(ctx context.Context, caller belljar.Caller, p *plan) (runtime.Root, error) {
	if err := s.fetchable(p.fetch); err != nil {
		return runtime.Root{}, &fetchError{err}
	}
	ask := belljar.ImagePull{Ref: p.fetch}
	if !p.caps.Unpacked {
		ask.Runtime = p.host.Name()
	}
	got, err := s.pull(ctx, caller, ask, nil)
	if err == nil {
		var root runtime.Root
		if root, err = s.findImage(ctx, p.host, p.caps, got.Digest); err == nil {
			root.Ref = p.image.Ref
			return root, nil
		}
	}
	if ctx.Err() != nil {
		return runtime.Root{}, context.Cause(ctx)
	}
	return runtime.Root{}, &fetchError{err}
}

// tries is how often the image of one sandbox is looked for: others remove images that nobody uses yet.
const tries = 3

// makeBox makes the sandbox of a plan, and its image ready before, if it is not. know learns what the image is.
func (s *Service) makeBox(ctx context.Context, r *run, caller belljar.Caller, p *plan, know func(runtime.Root)) (runtime.Sandbox, error) {
	for n := 1; ; n++ {
		if p.fetch != "" {
			root, err := s.fetchImage(ctx, caller, p)
			if err != nil {
				return nil, err
			}
			know(root)
		}
		box, err := s.create(ctx, r, p)
		if !errors.Is(err, runtime.ErrNoImage) {
			return box, err
		}
		if n == tries || s.fetchable(p.image.Ref) != nil {
			return nil, &fetchError{&belljar.Error{
				Code: belljar.CodeImageUnavailable, Message: fmt.Sprintf("image %q was removed before the sandbox was made", p.image.Ref),
				Details: map[string]any{"image": p.image.Ref, "digest": p.image.Digest}, Hint: "make it ready again: belljar image pull or import",
			}}
		}
		p.fetch = pinned(p.image.Ref, p.image.Digest)
	}
}
