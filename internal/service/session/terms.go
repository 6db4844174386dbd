package session

import (
	"fmt"
	"math"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/fault"
)

// Terms are the bounds of all sessions of a service.
type Terms struct {
	TTL, MaxTTL            time.Duration // after the last use: the default and the maximum
	Lifetime, MaxLifetime  time.Duration // in total
	Concurrency            int           // concurrent runs in one session
	MaxPerUser, MaxPerNode int           // live sessions; less than 0 is no bound
	ReapEvery              time.Duration // between two passes of the reaper
	Rest                   time.Duration // idle time after which a session hibernates; 0 is never
	DefaultImage           string        // of a session that is opened without an image
}

// terms are the bounds of one session's life and runs.
type terms struct {
	ttl        time.Duration // after its last use
	idle       time.Duration // without activity; 0 is forever
	lifetime   time.Duration // in total
	rest       time.Duration // idle time after which it hibernates; 0 is never
	runs       int           // in total; 0 is no limit
	concurrent int           // at the same time
}

// checkTerms refuses a session whose request exceeds the maximum life or number of concurrent runs.
func (s *Sessions) checkTerms(spec belljar.SessionSpec) error {
	for _, ask := range []struct {
		name string
		got  float64
		most float64 // 0 is no bound
	}{
		{"ttl_sec", spec.TTLSec, s.opts.MaxTTL.Seconds()},
		{"lifetime_sec", spec.LifetimeSec, s.opts.MaxLifetime.Seconds()},
		{"idle_timeout_sec", spec.IdleTimeoutSec, 0},
		{"max_runs", float64(spec.MaxRuns), 0},
		{"max_concurrent_runs", float64(spec.MaxConcurrent), float64(s.opts.Concurrency)},
	} {
		switch {
		case ask.got < 0 || math.IsNaN(ask.got) || math.IsInf(ask.got, 0):
			return fault.Refuse(ask.name, fmt.Sprint(ask.got), ask.name+" must be 0 or more")
		case ask.most > 0 && ask.got > ask.most:
			return fault.Above(ask.name, ask.most, ask.got)
		}
	}
	return nil
}

// termsOf returns the terms of a spec that is admitted now, or was admitted earlier.
func (s *Sessions) termsOf(spec belljar.SessionSpec) terms {
	t := terms{
		ttl: s.opts.TTL, lifetime: s.opts.Lifetime, idle: clock.Seconds(spec.IdleTimeoutSec),
		runs: spec.MaxRuns, concurrent: s.opts.Concurrency, rest: s.opts.Rest,
	}
	for _, ask := range []struct {
		field *time.Duration
		sec   float64
	}{{&t.ttl, spec.TTLSec}, {&t.lifetime, spec.LifetimeSec}} {
		if ask.sec > 0 {
			*ask.field = max(clock.Seconds(ask.sec), time.Millisecond)
		}
	}
	if spec.IdleTimeoutSec > 0 {
		t.idle = max(t.idle, time.Millisecond)
	}
	if spec.MaxConcurrent > 0 {
		t.concurrent = spec.MaxConcurrent
	}
	return t
}

// check refuses a request for a session that is invalid on every host.
func (s *Sessions) check(spec belljar.SessionSpec) error {
	if err := s.opts.Rules.Version(spec.SpecVersion); err != nil {
		return err
	}
	if spec.BaseImage == "" && spec.Template == "" {
		return fault.Refuse("base_image", "", "base_image is required without a template")
	}
	if err := spec.Validate(); err != nil {
		return err
	}
	return s.checkTerms(spec)
}
