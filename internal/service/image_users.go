package service

import (
	"maps"
	"slices"
)

// usersOf are the living sessions and the runs in sandboxes of their own that have an image.
func (s *Service) usersOf(digest string) (sessions, runs []string) {
	for _, x := range s.sessions.all() {
		if x.snapshot().ImageDigest == digest {
			sessions = append(sessions, x.id)
		}
	}
	s.mu.Lock()
	under := slices.Collect(maps.Values(s.runs))
	s.mu.Unlock()
	for _, r := range under {
		if state := r.snapshot(); state.ImageDigest == digest && state.SessionID == "" {
			runs = append(runs, r.id)
		}
	}
	slices.Sort(sessions)
	slices.Sort(runs)
	return sessions, runs
}

// track counts something that the service waits for until end is called; false while the service closes.
func (s *Service) track() (end func(), ok bool) {
	if !s.work.Enter() {
		return nil, false
	}
	return s.work.Done, true
}
