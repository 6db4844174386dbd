package service

import "context"

// Drain refuses new runs and sessions, waits until all runs have ended or ctx ends, and then closes the service. Queued runs do not
// begin: they stay on record for [Service.Recover] of the next process, or are cancelled. Drain does not wait for runs that outlive
// the process ([Service.Close]).
func (s *Service) Drain(ctx context.Context) error {
	under := s.runs.Refuse()
	s.sessions.Refuse()
	for _, r := range under {
		r.Wait(ctx)
	}
	return s.Close()
}

// Faults returns the faults of the store and of the runtime for requests with default values, nil if they work. A runtime works if it
// was available when last probed; an unavailable one is probed again.
func (s *Service) Faults(ctx context.Context) (store, runtime error) {
	return s.opts.Store.Ping(ctx), s.rules.Ready(ctx)
}
