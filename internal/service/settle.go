package service

// Settle waits until no run and no teardown is under way. Nobody may start anything meanwhile: it is for measuring one
// run after the other, and for tests that look at what is left.
func (s *Service) Settle() { s.work.Wait() }
