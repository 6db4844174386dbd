package service

// usersOf returns the live sessions, and the runs in sandboxes of their own, that use an image.
func (s *Service) usersOf(digest string) (sessions, runs []string) {
	return s.sessions.WithImage(digest), s.runs.WithImage(digest)
}

// track counts work that the service waits for, until end is called. It reports false while the service closes.
func (s *Service) track() (end func(), ok bool) {
	if !s.work.Enter() {
		return nil, false
	}
	return s.work.Done, true
}
