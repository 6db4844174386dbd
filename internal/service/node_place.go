package service

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/fault"
)

// placeSession finds room for a session's sandbox.
func (s *Service) placeSession(ctx context.Context, x *session) error {
	quota, err := s.accounts.Quota(ctx, x.caller.ID)
	if err == nil {
		err = s.node.Claim(x.id, x.caller.ID, x.place, quota)
	}
	if err != nil {
		return err
	}
	if ok, _ := s.node.Place(x.id, false); !ok {
		s.carrier.count(event.QueueFull, x.place.Host.Name(), "node_memory", 1)
		return s.node.Full()
	}
	return nil
}

// starved ends a session whose sandbox is destroyed to leave the others their memory.
func (x *session) starved(why error) { x.end(belljar.SessionCrashed, why.Error(), why) }

// strongEnough refuses what would run in a session whose sandbox is weaker than caller may have now.
func (s *Service) strongEnough(caller belljar.Caller, x *session, ask admission.Ask) error {
	return s.rules.StrongEnough(caller, x.id, x.place.Caps.Isolation, x.spec.TrustLevel, ask)
}

// awaitMemory waits until the node's memory has room for the run's sandbox, as long as a run may wait in the queue.
func (s *carrier) awaitMemory(r *run) error {
	ok, later := s.memory.Place(r.id, false)
	if ok {
		return nil
	}
	s.count(event.QueueFull, r.state.Runtime, "node_memory", 1)
	defer s.clock.AfterFunc(s.queueTTL, func() { r.stop(fault.ErrQueueTTL) })()
	for !ok {
		select {
		case <-later:
			ok, later = s.memory.Place(r.id, false)
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		}
	}
	return nil
}

// Room refuses, with [belljar.CodeDiskFull], what would take space on the disk for a user while it is nearly full. It is for
// doors that keep something there.
func (s *Service) Room(ctx context.Context, user string) error { return s.accounts.Room(ctx, user) }
