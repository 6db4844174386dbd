package store

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/belljar/belljar"
)

// CheckOpen returns ErrInvalid unless the run can be stored as one that has not ended.
func (r *Run) CheckOpen() error {
	switch {
	case r.ID == "":
		return fmt.Errorf("run without an id: %w", ErrInvalid)
	case r.Phase != belljar.PhaseQueued && r.Phase != belljar.PhaseStarting && r.Phase != belljar.PhaseRunning:
		return fmt.Errorf("run %s in phase %q is not open: %w", r.ID, r.Phase, ErrInvalid)
	case r.FinishedAt != nil:
		return fmt.Errorf("run %s in phase %q has a time of its end: %w", r.ID, r.Phase, ErrInvalid)
	case r.Spec != nil && len(r.Spec.Secrets) > 0:
		return fmt.Errorf("run %s has secrets that are not sealed: %w", r.ID, ErrInvalid)
	}
	return nil
}

// CheckEnded returns ErrInvalid unless the run can be stored as one that has ended.
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

// KeptBytes returns how many bytes of its owner's quota the run's artifacts use.
func (r *Run) KeptBytes() int64 {
	if r.ResourceUsage == nil || r.ArtifactsGone {
		return 0
	}
	return max(0, r.ResourceUsage.ArtifactBytes)
}

// KeptLog returns how many bytes of its owner's quota the run's log uses.
func (r *Run) KeptLog() int64 {
	if r.LogGone {
		return 0
	}
	return max(0, r.LogBytes)
}

// Charged returns what the run adds to its owner's daily usage. The figures of runs in a session overlap, so such a run has a separate
// charge. For any other run, the agent's CPU time counts only if the host has no figure: a program that took over the agent could forge it.
func (r *Run) Charged() Charge {
	if r.SessionID != "" {
		return r.Charge
	}
	c := Charge{CPUSeconds: cmp.Or(r.Charge.CPUSeconds, r.CPUSeconds())}
	if r.Egress != nil {
		c.EgressBytes = max(0, r.Egress.BytesIn) + max(0, r.Egress.BytesOut)
	}
	return c
}

// CPUSeconds returns the run's CPU time, including its build.
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

// Order parses the sort of a [belljar.RunQuery] into a time column and a direction. It returns ErrInvalid for any other
// text, so that a caller's text never becomes part of an SQL statement.
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

// DefaultPage is the number of entries on a page if the query sets no limit.
const DefaultPage = 50

// Page normalises the bounds of a page: a limit of 0 or less becomes [DefaultPage], a negative offset becomes 0.
func Page(limit, offset int) (int, int) {
	if limit <= 0 {
		limit = DefaultPage
	}
	return limit, max(0, offset)
}

// Check returns ErrInvalid unless the session can be stored. EndedAt must be set exactly if the session has ended.
func (s *Session) Check() error {
	switch {
	case s.ID == "":
		return fmt.Errorf("session without an id: %w", ErrInvalid)
	case len(s.Spec.Secrets) > 0:
		return fmt.Errorf("session %s has secrets that are not sealed: %w", s.ID, ErrInvalid)
	case s.State.Ended() != (s.EndedAt != nil):
		return fmt.Errorf("session %s in state %q, time of its end set: %t: %w", s.ID, s.State, s.EndedAt != nil, ErrInvalid)
	}
	return nil
}
