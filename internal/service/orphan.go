package service

import (
	"context"
	"slices"
	"sync"
)

// orphans is what is known of sandboxes on a runtime that are nobody's. The zero value suspects none.
type orphans struct {
	mu        sync.Mutex
	suspected bool     // there may be some: the runtime could not be asked, or did not remove what it was told to
	seen      []string // by the last look
}

// suspect has the reaper look for orphans, until there are none.
func (o *orphans) suspect() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.suspected = true
}

// removeOrphans removes the sandboxes of this installation that are nobody's, in a while: they keep nobody from starting.
// Those of a runtime that is away are the reaper's, when it is back.
func (s *Service) removeOrphans(ctx context.Context) {
	for _, h := range s.runtimes {
		if caps, err := h.capabilities(ctx); err == nil && !caps.Available {
			h.orphans.suspect()
			continue // nor can anybody find out what it has
		}
		found, err := s.orphansOf(ctx, h)
		if err != nil {
			h.orphans.suspect()
			s.log.Error("sandboxes of a former process cannot be listed", "runtime", h.Name(), "err", err)
			continue
		}
		if len(found) == 0 {
			continue
		}
		s.work.Go(func() {
			// Also while the service is closed: there may be no next one, and each takes only so long.
			inTurn(recoverAtOnce, found, func(id string) { s.removeLeft(context.WithoutCancel(ctx), h.Name(), id) })
		})
	}
}

// removeSuspected removes orphans where there may be some. One has to be seen by two looks: what is about to be somebody's,
// or is taken away just now, is not there for so long.
func (s *Service) removeSuspected(ctx context.Context) {
	for _, h := range s.runtimes {
		o := &h.orphans
		o.mu.Lock()
		suspected, seen := o.suspected, o.seen
		o.mu.Unlock()
		if !suspected || ctx.Err() != nil {
			continue
		}
		if caps, err := h.capabilities(ctx); err != nil || !caps.Available {
			continue
		}
		found, err := s.orphansOf(ctx, h)
		if err != nil {
			s.log.Warn("sandboxes that may be nobody's cannot be listed", "runtime", h.Name(), "err", err)
			continue
		}
		o.mu.Lock()
		o.seen, o.suspected = found, len(found) > 0
		o.mu.Unlock()
		again := slices.DeleteFunc(slices.Clone(found), func(id string) bool { return !slices.Contains(seen, id) })
		inTurn(recoverAtOnce, again, func(id string) { s.removeLeft(ctx, h.Name(), id) })
	}
}

// orphansOf are the sandboxes on a runtime that are nobody's.
func (s *Service) orphansOf(ctx context.Context, h *host) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, rejoinTime)
	defer cancel()
	ids, err := h.List(ctx)
	return slices.DeleteFunc(ids, func(id string) bool { return s.sessions.get(id) != nil || s.under(id) != nil }), err
}
