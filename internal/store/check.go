package store

import (
	"fmt"
	"math"
	"strings"

	"github.com/belljar/belljar"
)

// CheckOpen returns ErrInvalid unless the run can be put on record as one that has not ended.
func (r *Run) CheckOpen() error {
	switch {
	case r.ID == "":
		return fmt.Errorf("run without an id: %w", ErrInvalid)
	case r.Phase != belljar.PhaseQueued && r.Phase != belljar.PhaseStarting && r.Phase != belljar.PhaseRunning:
		return fmt.Errorf("run %s in phase %q is not open: %w", r.ID, r.Phase, ErrInvalid)
	case r.FinishedAt != nil:
		return fmt.Errorf("run %s in phase %q has a time of its end: %w", r.ID, r.Phase, ErrInvalid)
	}
	return nil
}

// CheckEnded returns ErrInvalid unless the run can be put on record as one that has ended.
func (r *Run) CheckEnded() error {
	switch {
	case r.ID == "":
		return fmt.Errorf("run without an id: %w", ErrInvalid)
	case !r.Phase.Terminal():
		return fmt.Errorf("run %s in phase %q has not ended: %w", r.ID, r.Phase, ErrInvalid)
	case r.FinishedAt == nil:
		return fmt.Errorf("run %s in phase %q has no time of its end: %w", r.ID, r.Phase, ErrInvalid)
	}
	return nil
}

// KeptBytes is what a run's artifacts take up of its owner's quota.
func (r *Run) KeptBytes() int64 {
	if r.ResourceUsage == nil || r.ArtifactsGone {
		return 0
	}
	return max(0, r.ResourceUsage.ArtifactBytes)
}

// KeptLog is what a run's log takes up of its owner's quota.
func (r *Run) KeptLog() int64 {
	if r.LogGone {
		return 0
	}
	return max(0, r.LogBytes)
}

// CPUSeconds is what a run adds to its owner's day, its build among it.
func (r *Run) CPUSeconds() float64 {
	sum := cpuSeconds(r.ResourceUsage)
	if r.Build != nil {
		sum += cpuSeconds(r.Build.Usage)
	}
	return sum
}

func cpuSeconds(u *belljar.ResourceUsage) float64 {
	if u == nil || u.CPUTimeSec == nil {
		return 0
	}
	if sec := *u.CPUTimeSec; sec > 0 && !math.IsInf(sec, 0) {
		return sec
	}
	return 0
}

// Order reads the sort of a [belljar.RunQuery]: the time it goes by and whether the newest come first. ErrInvalid for
// any other text, so that none of it can get into a query.
func Order(sort string) (by string, newestFirst bool, err error) {
	if sort == "" {
		return "created_at", true, nil
	}
	by, direction, _ := strings.Cut(sort, ":")
	switch by {
	case "created_at", "started_at", "finished_at":
	default:
		return "", false, fmt.Errorf("sort %q: %w", sort, ErrInvalid)
	}
	switch direction {
	case "", "desc":
		return by, true, nil
	case "asc":
		return by, false, nil
	}
	return "", false, fmt.Errorf("sort %q: %w", sort, ErrInvalid)
}

// DefaultPage is how many entries a page has when the query does not say.
const DefaultPage = 50

// Page returns the bounds of a page: limit 0 or less is [DefaultPage], an offset is never negative.
func Page(limit, offset int) (int, int) {
	if limit <= 0 {
		limit = DefaultPage
	}
	return limit, max(0, offset)
}

// Check returns ErrInvalid unless the session can be put on record: it has a time of its end when it has ended, and then
// only.
func (s *Session) Check() error {
	switch {
	case s.ID == "":
		return fmt.Errorf("session without an id: %w", ErrInvalid)
	case s.State.Ended() != (s.EndedAt != nil):
		return fmt.Errorf("session %s in state %q, time of its end set: %t: %w", s.ID, s.State, s.EndedAt != nil, ErrInvalid)
	}
	return nil
}
