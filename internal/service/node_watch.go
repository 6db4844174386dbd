package service

import (
	"context"
	"time"

	"github.com/belljar/belljar/internal/runtime"
)

// lookEvery is how often the memory of all sandboxes is looked at where the kernel announces nothing.
const lookEvery = time.Second

// watchNode looks after the memory of all sandboxes until the service is closed.
func (s *Service) watchNode() {
	for _, h := range s.runtimes {
		bounded, ok := runtime.As[runtime.Bounded](h.Runtime)
		if !ok {
			continue
		}
		whole := bounded.Whole()
		if whole == nil {
			continue
		}
		bound := whole.Bound()
		s.node.bound = float64(bound) * s.opts.MemoryOvercommit
		s.log.Info("all sandboxes together have a bound on memory", "mib", bound>>20, "admission", s.opts.MemoryAdmission)
		if s.opts.MemoryAdmission == AdmitUsed {
			s.work.Go(func() { s.guard(whole) })
		}
		return
	}
	if s.opts.MemoryAdmission == AdmitCaps {
		s.log.Warn("nothing bounds the memory of all sandboxes here, so that every sandbox is admitted")
	}
}

// guard keeps the memory in use below the bound.
func (s *Service) guard(whole runtime.Whole) {
	watch, err := whole.Watch(watermark, brink)
	if err != nil {
		s.log.Warn("the kernel does not announce that the sandboxes' memory runs short; it is looked at every second", "err", err)
	}
	defer watch.Close()
	for s.closing.Err() == nil {
		if !s.relieve(s.closing, whole) {
			watch.Wait(s.closing, lookEvery)
		}
	}
}

// relieve does what the memory in use asks for, and reports whether that gave some back, so that it is to be looked at again.
func (s *Service) relieve(ctx context.Context, whole runtime.Whole) bool {
	bound := whole.Bound()
	used, err := whole.Used()
	if err != nil || bound == 0 {
		return false
	}
	part := func(percent int64) int64 { return bound / 100 * percent }
	switch {
	case used >= part(watermark):
		if s.node.press(true) {
			s.log.Warn("the sandboxes' memory runs short: nothing new is admitted", "used_mib", used>>20, "bound_mib", bound>>20)
		}
		for _, h := range s.runtimes {
			if y, ok := runtime.As[runtime.Yielder](h.Runtime); ok && y.Yield() {
				return true
			}
		}
	case used < part(relief):
		s.node.press(false)
	}
	if used < part(brink) {
		return false
	}
	id, c, own, share := s.node.greediest(ctx, bound)
	if c == nil {
		return false
	}
	why := &nodeMemoryError{used: own, share: share}
	s.log.Error("a sandbox is ended so that the others have memory", "sandbox", id, "user_id", c.user, "used_mib", own>>20, "share_mib", share>>20)
	c.end(why)
	if err := c.box.Destroy(ctx); err != nil {
		s.log.Error("sandbox could not be destroyed", "sandbox", id, "err", err)
	}
	s.node.hold(id, nil, nil)
	return true
}
