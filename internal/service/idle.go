package service

// WaitIdle waits until no run and no removal of a sandbox is in progress. It is for measuring consecutive runs, and for tests that check
// for leftovers. Do not start anything meanwhile.
func (s *Service) WaitIdle() { s.work.Wait() }
