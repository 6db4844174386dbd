//go:build linux

package service_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service"
)

// tap is a sink that calls a function before it keeps an event.
type tap struct {
	diary
	before func(event.Event)
}

func (s *tap) Record(e event.Event) {
	if s.before != nil {
		s.before(e)
	}
	s.diary.Record(e)
}

// The event of a session's creation comes before that of its end, even if the session is ended at once.
func TestCreatedBeforeEnded(t *testing.T) {
	t.Parallel()
	events := &tap{}
	b := newBench(t, func(o *service.Options) { o.Events = events })
	sessions := b.service.As(ann).Sessions()
	events.before = func(e event.Event) {
		if e.Name != event.SessionCreated {
			return
		}
		if e.Session.State != belljar.SessionActive {
			t.Errorf("created in state %s", e.Session.State)
		}
		got, err := sessions.Get(b.context(), e.Session.ID)
		if err != nil || got.State != belljar.SessionStarting {
			t.Errorf("it can be used, and ended, before its event: %+v, %v", got, err)
		}
		over, cancel := context.WithCancel(b.context())
		cancel()
		_ = sessions.Delete(over, e.Session.ID) // does not wait for its end
	}
	_, err := sessions.Create(b.context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.1", BaseImage: "host"}})
	if belljar.CodeOf(err) != belljar.CodeCanceled {
		t.Error(err)
	}
	var names []string
	events.mu.Lock()
	defer events.mu.Unlock()
	for _, e := range events.events {
		if e.Name == event.SessionCreated || e.Name == event.SessionEnded {
			names = append(names, e.Name+" "+string(e.Session.State))
		}
	}
	if want := []string{event.SessionCreated + " active", event.SessionEnded + " closed"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// The time that a run or a session takes to start does not contain the wait for an operator.
func TestStartTimeWithoutApproval(t *testing.T) {
	t.Parallel()
	clock, events := newHourglass(), diary{}
	b := newBench(t, asking("timeout_sec>600"), func(o *service.Options) { o.Clock, o.Events, o.ApprovalTTL = clock, &events, 24*time.Hour }).seen(ann)
	run := b.start(big("true"))
	x, err := b.service.As(ann).Sessions().Create(b.context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.1", BaseImage: "host", TimeoutSec: 900}})
	if err != nil {
		t.Fatal(err)
	}
	clock.pass(2 * time.Hour)
	b.approve(run.ID)
	b.approve(x.ID)
	b.follow(run.ID).want(t, belljar.PhaseCompleted, 0, "")
	b.in(x.ID, "true") // after the session was made
	for name, n := range map[string]int{event.RunStarting: 2, event.RunRunning: 2, event.SessionCreated: 1} {
		list := events.named(name)
		if len(list) != n {
			t.Errorf("%d events %s, want %d", len(list), name, n)
		}
		for _, e := range list {
			if e.Took > time.Minute {
				t.Errorf("%s took %v", name, e.Took)
			}
		}
	}
	if err := b.service.As(ann).Sessions().Delete(b.context(), x.ID); err != nil {
		t.Fatal(err)
	}
}
