package service

// WaitIdle waits until no run and no removal of a sandbox is under way. It is for measuring one run after another, and for tests that look
// at what is left: nothing may be started meanwhile.
func (s *Service) WaitIdle() { s.work.Wait() }
