package service

import (
	"context"

	"github.com/belljar/belljar/internal/service/recovery"
)

// Recover continues what a former process left, and starts the upkeep. Call it once, before the first request. Sessions whose
// sandboxes live continue, and so do the runs whose commands do: they end as they would have. Runs in the queue wait again. What
// cannot continue is recorded as lost, or as what its log says. Orphaned sandboxes are removed. If the process dies meanwhile, the
// next one does the rest.
func (s *Service) Recover(ctx context.Context) error {
	s.memory.Watch(s.work.Closing(), s.work.Go)
	if err := s.volumes.Load(ctx); err != nil {
		return err
	}
	// Sessions first: a run in one needs to know whether it is there.
	if err := recovery.Run(ctx, s.sessions.Recovery(), s.runs.Recovery(), sandboxes{s}); err != nil {
		return err
	}
	if err := s.templates.Sweep(ctx, true); err != nil {
		s.log.Error("remains of builds of templates cannot be removed", "err", err) // a sweep tries again
	}
	s.sweeps.Start()
	s.reaps.Start()
	return nil
}
