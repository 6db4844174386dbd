package service

import (
	"context"

	"github.com/belljar/belljar/internal/service/recovery"
)

// Recover continues the work of a previous process, and starts the maintenance. Call it once, before the first request. Sessions
// with live sandboxes continue, and so do runs with live commands, with unchanged deadlines. Queued runs wait again. All other
// runs and sessions are recorded as lost, or with the result in their log. Orphaned sandboxes are removed. If the process dies
// meanwhile, the next one completes the recovery.
func (s *Service) Recover(ctx context.Context) error {
	s.memory.Watch(s.work.Closing(), s.work.Go)
	if err := s.volumes.Load(ctx); err != nil {
		return err
	}
	// Recover sessions first: a run in a session needs to know whether it exists.
	if err := recovery.Run(ctx, s.sessions.Recovery(), s.runs.Recovery(), sandboxes{s}); err != nil {
		return err
	}
	if err := s.desk.WithdrawLost(ctx); err != nil {
		return err
	}
	if err := s.templates.Sweep(ctx, true); err != nil {
		s.log.Error("remains of builds of templates cannot be removed", "err", err) // a sweep retries
	}
	s.sweeps.Start()
	s.reaps.Start()
	return nil
}
