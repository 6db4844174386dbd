package service

import (
	"context"
	"slices"

	"github.com/belljar/belljar/internal/service/placement"
)

// removeOrphans removes the sandboxes of this installation that are nobody's, in a while: they keep nobody from starting.
// Those of a runtime that is away are the reaper's, when it is back.
func (s *Service) removeOrphans(ctx context.Context) {
	for _, h := range s.hosts {
		if caps, err := h.Capabilities(ctx); err == nil && !caps.Available {
			h.Orphans.Suspect()
			continue // nor can anybody find out what it has
		}
		found, err := s.orphansOf(ctx, h)
		if err != nil {
			h.Orphans.Suspect()
			s.log.Error("sandboxes of a former process cannot be listed", "runtime", h.Name(), "err", err)
			continue
		}
		if len(found) == 0 {
			continue
		}
		s.work.Go(func() {
			// Also while the service is closed: there may be no next one, and each takes only so long.
			inTurn(recoverAtOnce, found, func(id string) { s.boxes.Remove(context.WithoutCancel(ctx), h.Name(), id) })
		})
	}
}

// removeSuspected removes orphans where there may be some. One has to be seen by two looks: what is about to be somebody's,
// or is taken away just now, is not there for so long.
func (s *Service) removeSuspected(ctx context.Context) {
	for _, h := range s.hosts {
		suspected, seen := h.Orphans.Suspected()
		if !suspected || ctx.Err() != nil {
			continue
		}
		if caps, err := h.Capabilities(ctx); err != nil || !caps.Available {
			continue
		}
		found, err := s.orphansOf(ctx, h)
		if err != nil {
			s.log.Warn("sandboxes that may be nobody's cannot be listed", "runtime", h.Name(), "err", err)
			continue
		}
		h.Orphans.Found(found)
		again := slices.DeleteFunc(slices.Clone(found), func(id string) bool { return !slices.Contains(seen, id) })
		inTurn(recoverAtOnce, again, func(id string) { s.boxes.Remove(ctx, h.Name(), id) })
	}
}

// orphansOf are the sandboxes on a runtime that are nobody's.
func (s *Service) orphansOf(ctx context.Context, h *placement.Host) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, reattachTime)
	defer cancel()
	ids, err := h.List(ctx)
	return slices.DeleteFunc(ids, func(id string) bool { return s.sessions.get(id) != nil || s.under(id) != nil }), err
}
