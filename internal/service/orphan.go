package service

import (
	"context"
	"slices"

	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/recovery"
	"github.com/belljar/belljar/internal/service/session"
)

// sandboxes recovers the sandboxes that no session and no run has claimed, by removing them.
type sandboxes struct{ service *Service }

var _ recovery.Cleaner = sandboxes{}

// Recover does nothing: sessions and runs reattach to their sandboxes.
func (sandboxes) Recover(context.Context) error { return nil }

// RemoveOrphans removes the orphaned sandboxes of this installation in the background, so that it does not delay the start. If a
// runtime is not available, the reaper removes its orphans later.
func (s sandboxes) RemoveOrphans(ctx context.Context) {
	for _, h := range s.service.hosts {
		if caps, err := h.Capabilities(ctx); err == nil && !caps.Available {
			h.Orphans.Suspect()
			continue // it cannot list its sandboxes
		}
		found, err := s.orphansOf(ctx, h)
		if err != nil {
			h.Orphans.Suspect()
			s.service.log.Error("sandboxes of a former process cannot be listed", "runtime", h.Name(), "err", err)
			continue
		}
		if len(found) == 0 {
			continue
		}
		s.service.work.Go(func() {
			// Continue even while the service closes: there may be no next process, and each removal takes a bounded time.
			recovery.ForEach(found, func(id string) { s.service.boxes.Remove(context.WithoutCancel(ctx), h.Name(), id) })
		})
	}
}

// removeSuspected removes orphans on the suspected runtimes that two consecutive passes find. A sandbox that is being made or
// removed is orphaned only briefly.
func (s sandboxes) removeSuspected(ctx context.Context) {
	for _, h := range s.service.hosts {
		suspected, seen := h.Orphans.Suspected()
		if !suspected || ctx.Err() != nil {
			continue
		}
		if caps, err := h.Capabilities(ctx); err != nil || !caps.Available {
			continue
		}
		found, err := s.orphansOf(ctx, h)
		if err != nil {
			s.service.log.Warn("sandboxes that may be orphaned cannot be listed", "runtime", h.Name(), "err", err)
			continue
		}
		h.Orphans.Found(found)
		again := slices.DeleteFunc(slices.Clone(found), func(id string) bool { return !slices.Contains(seen, id) })
		recovery.ForEach(again, func(id string) { s.service.boxes.Remove(ctx, h.Name(), id) })
	}
}

// orphansOf returns the orphaned sandboxes on a runtime.
func (s sandboxes) orphansOf(ctx context.Context, h *placement.Host) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, recovery.Timeout)
	defer cancel()
	ids, err := h.List(ctx)
	return slices.DeleteFunc(ids, func(id string) bool {
		x := s.service.sessions.Get(id)
		return x != nil && !session.Hibernates(x) || s.service.runs.Get(id) != nil || s.service.boxes.IsSide(id)
	}), err
}

// Reap makes one pass over the live sessions, as [session.Sessions.Reap] does, and over suspected orphans. After
// [Service.Recover] the service calls it every [Options.ReapEvery].
func (s *Service) Reap(ctx context.Context) {
	s.sessions.Reap(ctx)
	sandboxes{s}.removeSuspected(ctx)
}
