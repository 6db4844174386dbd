package lifecycle

import (
	"sync"
	"time"
)

// Schedule repeats maintenance until it is stopped.
type Schedule struct {
	Every     time.Duration
	AfterFunc func(d time.Duration, f func()) (stop func() bool)
	Work      *Group // counts each pass
	Pass      func()

	mu      sync.Mutex
	stopped bool
	cancel  func() bool
}

// Start schedules the first pass [Schedule.Every] from now, and each further one the same time after the end of
// the previous one.
func (s *Schedule) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.cancel = s.AfterFunc(s.Every, s.pass)
	}
}

// pass makes one pass, unless the schedule was stopped.
func (s *Schedule) pass() {
	if !s.begin() {
		return
	}
	defer s.Work.Done()
	s.Pass()
	s.Start()
}

// begin counts a pass that is due, and reports whether it may begin.
func (s *Schedule) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.Work.Add()
	}
	return !s.stopped
}

// Stop prevents further passes. A running pass continues.
func (s *Schedule) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.cancel != nil {
		s.cancel()
	}
}
