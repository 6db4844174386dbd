package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
)

// pullsAtOnce is how many images are fetched at a time on this node. Others wait for their turn.
const pullsAtOnce = 4

// pulls are the images that are being fetched. The zero value is none.
type pulls struct {
	mu    sync.Mutex
	under map[belljar.ImagePull]*pull
	turns chan struct{}
}

// pull is one image on its way, for everybody who waits for it. It goes on for as long as somebody does.
type pull struct {
	waiters int // guarded by the mu of the pulls
	stop    context.CancelFunc
	done    chan struct{} // closed when image and err are set
	image   belljar.Image
	err     error
	news    news
}

// errNobodyWaits ends a pull.
var errNobodyWaits = errors.New("nobody waits for the image any more")

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

// pull fetches an image, or waits for somebody else's fetching of it. A caller who gives up waits no longer; when nobody
// waits, it ends.
func (s *Service) pull(ctx context.Context, caller belljar.Caller, p belljar.ImagePull, progress func(belljar.ImageProgress)) (belljar.Image, error) {
	one, err := s.joinPull(caller, p)
	if err != nil {
		return belljar.Image{}, err
	}
	defer s.pulls.leave(p, one)
	if progress != nil {
		if err := one.news.follow(ctx, one.done, progress); err != nil {
			return belljar.Image{}, err
		}
	}
	select {
	case <-one.done:
		return one.image, one.err
	case <-ctx.Done():
		return belljar.Image{}, context.Cause(ctx)
	}
}

// joinPull returns a pull that is under way, or begins it.
func (s *Service) joinPull(caller belljar.Caller, p belljar.ImagePull) (*pull, error) {
	s.pulls.mu.Lock()
	defer s.pulls.mu.Unlock()
	if one := s.pulls.under[p]; one != nil {
		one.waiters++
		return one, nil
	}
	if err := s.room(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(s.closing)
	one := &pull{waiters: 1, stop: func() { cancel(errNobodyWaits) }, done: make(chan struct{})}
	if s.pulls.under == nil {
		s.pulls.under, s.pulls.turns = map[belljar.ImagePull]*pull{}, make(chan struct{}, pullsAtOnce)
	}
	begun := s.employ(func() {
		s.work.Go(func() {
			defer cancel(nil)
			one.image, one.err = s.fetchNow(ctx, caller, p, one.news.add)
			s.pulls.over(p, one)
		})
	})
	if !begun {
		cancel(nil)
		return nil, shuttingDown()
	}
	s.pulls.under[p] = one
	return one, nil
}

// leave is one waiter less.
func (t *pulls) leave(p belljar.ImagePull, one *pull) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one.waiters--; one.waiters > 0 {
		return
	}
	if t.under[p] == one {
		delete(t.under, p) // who comes now begins anew, and not with one that is about to fail
	}
	one.stop()
}

// over ends a pull.
func (t *pulls) over(p belljar.ImagePull, one *pull) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.under[p] == one {
		delete(t.under, p)
	}
	close(one.done)
}

// fetchNow fetches an image when it is its turn, and says that it did.
func (s *Service) fetchNow(ctx context.Context, caller belljar.Caller, p belljar.ImagePull, progress func(belljar.ImageProgress)) (got belljar.Image, err error) {
	begun := s.clock.Now()
	select {
	case s.pulls.turns <- struct{}{}:
		defer func() { <-s.pulls.turns }()
	case <-ctx.Done():
		return got, s.pullEnded(ctx, ctx.Err())
	}
	if p.Runtime == "" {
		got, err = s.opts.Images.Pull(ctx, p.Ref, p.Always, progress)
	} else {
		got, err = s.enginePull(ctx, p, progress)
	}
	err = s.pullEnded(ctx, err)
	s.imageEvent(event.ImagePulled, caller, event.Event{
		Runtime: p.Runtime, Took: s.clock.Now().Sub(begun), Count: got.Bytes, Err: err,
		Detail: map[string]string{"image": p.Ref, "digest": got.Digest},
	})
	if err != nil {
		s.log.Warn("image could not be pulled", "image", p.Ref, "runtime", p.Runtime, "user_id", caller.ID, "err", err)
	}
	return got, err
}

// pullEnded is what is told of a pull's failure.
func (s *Service) pullEnded(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case s.closing.Err() != nil:
		return shuttingDown()
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case full(err):
		return diskFull(err)
	}
	return err
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
