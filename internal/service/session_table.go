package service

import (
	"sync"

	"github.com/belljar/belljar"
)

// sessionTable is the sessions of this process that have not ended. The zero value is empty.
type sessionTable struct {
	mu     sync.Mutex
	living map[string]*session
	closed bool // no more are made
}

// session finds a living session that caller may see. Runs ask for it at their admission.
func (s *Service) session(caller belljar.Caller, id string) (*session, error) {
	s.sessions.mu.Lock()
	x, ok := s.sessions.living[id]
	s.sessions.mu.Unlock()
	if !ok || !caller.Sees(x.caller.ID) {
		return nil, sessionMissing(id)
	}
	return x, nil
}
