package service

import (
	"slices"

	"github.com/belljar/belljar"
)

// retire puts a run that has ended among those kept, and lets the oldest go that are too many.
func (s *Service) retire(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = append(s.finished, r)
	s.kept += r.bytes()
	for len(s.finished) > 1 && (len(s.finished) > s.opts.KeepRuns || s.kept > s.opts.KeepBytes) {
		s.drop(s.finished[0])
		s.finished = s.finished[1:]
	}
}

// abandon removes what a run that was not accepted has left.
func (s *Service) abandon(r *run) {
	r.stop(nil)
	if err := s.opts.Logs.Remove(r.id); err != nil {
		s.log.Error("log could not be removed", "run_id", r.id, "err", err)
	}
}

// Forget drops a finished run with its log and artifacts. One that is still under way is [belljar.CodeConflict].
func (s *Service) Forget(caller belljar.Caller, id string) error {
	r, err := s.lookup(caller, id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.finished, r)
	switch {
	case i >= 0:
		s.drop(r)
		s.finished = slices.Delete(s.finished, i, i+1)
	case s.runs[id] != nil:
		return &belljar.Error{
			Code: belljar.CodeConflict, Message: "run " + id + " has not ended",
			Hint: "cancel it first", Details: map[string]any{"run_id": id},
		}
	}
	return nil
}

// drop removes every trace of a finished run. The caller holds the lock and takes it off the list.
func (s *Service) drop(r *run) {
	delete(s.runs, r.id)
	s.kept -= r.bytes()
	if err := s.opts.Logs.Remove(r.id); err != nil {
		s.log.Error("log could not be removed", "run_id", r.id, "err", err)
	}
	r.captured.release()
}
