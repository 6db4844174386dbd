package service

import "context"

// Drain refuses new runs and sessions, waits until no run is under way or ctx ends, and then closes the service. Runs in the queue do
// not begin: they stay on record for [Service.Recover] of the next process, or are cancelled. What outlives the process
// ([Service.Close]) is not waited for.
func (s *Service) Drain(ctx context.Context) error {
	under := s.runs.Refuse()
	s.sessions.Refuse()
	for _, r := range under {
		r.Wait(ctx)
	}
	return s.Close()
}

// Ping reports whether the store works.
func (s *Service) Ping(ctx context.Context) error { return s.opts.Store.Ping(ctx) }
