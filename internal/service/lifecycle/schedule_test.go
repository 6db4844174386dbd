package lifecycle

import (
	"testing"
	"time"
)

// timers are fired by the test.
type timers struct {
	due     func()
	stopped int
}

func (c *timers) AfterFunc(_ time.Duration, f func()) func() bool {
	c.due = f
	return func() bool { c.stopped++; return true }
}

func TestSchedule(t *testing.T) {
	var c timers
	passes := 0
	s := &Schedule{Every: time.Minute, AfterFunc: c.AfterFunc, Work: &Group{}, Pass: func() { passes++ }}
	s.Start()
	for range 3 {
		c.due()
	}
	if passes != 3 {
		t.Fatalf("%d passes", passes)
	}
	due := c.due
	s.Stop()
	due() // it had already fired
	s.Start()
	if passes != 3 || c.stopped != 1 {
		t.Errorf("%d passes, %d timers stopped", passes, c.stopped)
	}
	s.Work.Wait()
}
