package service

import (
	"context"
	"fmt"
)

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

// Faults returns the faults of the store and of the default runtime, nil if they work. A runtime works if it was available when last
// probed; an unavailable one is probed again.
func (s *Service) Faults(ctx context.Context) (store, runtime error) {
	h := s.hosts[0]
	caps, runtime := h.Capabilities(ctx)
	if runtime == nil && !caps.Available {
		runtime = fmt.Errorf("runtime %s: %+v", h.Name(), caps.Reasons)
	}
	return s.opts.Store.Ping(ctx), runtime
}
