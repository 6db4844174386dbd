package service

import (
	"context"

	"github.com/belljar/belljar/internal/service/fault"
)

// Drain refuses new runs and sessions, waits until no run is under way or ctx ends, and then closes the service. Runs in
// the queue do not begin any more: they stay on record for [Service.Recover], or are cancelled with the rest. What goes on
// without us ([Service.Close]) is not waited for.
func (s *Service) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.work.Refuse()
	var under []*run
	for _, r := range s.runs {
		select {
		case <-r.ticket.Ready():
			if !s.stays() || !r.settled() {
				under = append(under, r)
			}
		default:
			r.stop(fault.ErrShutdown)
		}
	}
	s.mu.Unlock()
	s.sessions.refuse()
	for _, r := range under {
		select {
		case <-r.done:
		case <-r.left:
		case <-ctx.Done():
		}
	}
	return s.Close()
}

// drains reports whether nothing new begins any more.
func (s *Service) drains() bool { return s.work.Refused() }

// Ping tells whether the store works.
func (s *Service) Ping(ctx context.Context) error { return s.opts.Store.Ping(ctx) }
