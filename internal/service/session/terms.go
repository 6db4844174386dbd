package session

import (
	"fmt"
	"math"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/fault"
)

// Terms bound all sessions of a service.
type Terms struct {
	TTL, MaxTTL            time.Duration // after the last use: the default, and the most that a request may set
	Lifetime, MaxLifetime  time.Duration // in all
	Concurrency            int           // runs at once in one session
	MaxPerUser, MaxPerNode int           // living sessions; less than 0 is no bound
	ReapEvery              time.Duration // between two passes of the reaper
	Rest                   time.Duration // without any sign of life, after which a session hibernates; 0 is never
	DefaultImage           string        // of a session that is opened and names none
}

// terms are how long one session may live, and how much may happen in it.
type terms struct {
	ttl        time.Duration // after its last use
	idle       time.Duration // without any sign of life; 0 is for ever
	lifetime   time.Duration // in all
	rest       time.Duration // without any sign of life, after which it hibernates; 0 is never
	runs       int           // in all; 0 is no limit
	concurrent int           // at once
}

// checkTerms refuses a session that requests a longer life than it can have, or more runs at once.
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

// termsOf is the terms of a spec that is allowed now, or was when it was admitted.
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

// check refuses a request for a session that is wrong wherever its sandbox would be.
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
