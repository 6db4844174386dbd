package service

import (
	"fmt"
	"math"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// checkTerms refuses a session that asks for a longer life than it can have, or for more to go on in it.
func (s *Service) checkTerms(spec belljar.SessionSpec) error {
	for _, ask := range []struct {
		name string
		got  float64
		most float64 // 0 is no bound
	}{
		{"ttl_sec", spec.TTLSec, s.opts.MaxSessionTTL.Seconds()},
		{"lifetime_sec", spec.LifetimeSec, s.opts.MaxSessionLifetime.Seconds()},
		{"idle_timeout_sec", spec.IdleTimeoutSec, 0},
		{"max_runs", float64(spec.MaxRuns), 0},
		{"max_concurrent_runs", float64(spec.MaxConcurrent), float64(s.opts.SessionConcurrency)},
	} {
		switch {
		case ask.got < 0 || math.IsNaN(ask.got) || math.IsInf(ask.got, 0):
			return fault.Refuse(ask.name, fmt.Sprint(ask.got), ask.name+" must be 0 or more")
		case ask.most > 0 && ask.got > ask.most:
			return &belljar.Error{
				Code: belljar.CodePolicyDenied, Message: fmt.Sprintf("%s is limited to %v here, got %v", ask.name, ask.most, ask.got),
				Details: map[string]any{"field": ask.name, "provided": ask.got, "maximum": ask.most},
			}
		}
	}
	return nil
}

// termsOf is the terms of a spec that is allowed, or was once.
func (s *Service) termsOf(spec belljar.SessionSpec) terms {
	t := terms{
		ttl: s.opts.SessionTTL, lifetime: s.opts.SessionLifetime, idle: seconds(spec.IdleTimeoutSec),
		runs: spec.MaxRuns, concurrent: s.opts.SessionConcurrency,
	}
	for _, ask := range []struct {
		field *time.Duration
		sec   float64
	}{{&t.ttl, spec.TTLSec}, {&t.lifetime, spec.LifetimeSec}} {
		if ask.sec > 0 {
			*ask.field = max(seconds(ask.sec), time.Millisecond)
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

// checkSession refuses a request for a session that can be seen to be wrong without looking for a place for it.
func (s *Service) checkSession(spec belljar.SessionSpec) error {
	if err := s.rules.Version(spec.SpecVersion); err != nil {
		return err
	}
	if spec.BaseImage == "" {
		return fault.Refuse("base_image", "", "base_image is required")
	}
	if err := spec.Validate(); err != nil {
		return err
	}
	return s.checkTerms(spec)
}
