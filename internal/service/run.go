package service

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
)

// Why a run is stopped before its command ends by itself.
var (
	errCanceled       = errors.New("canceled by user")
	errShutdown       = errors.New("belljar is shutting down")
	errStartupTimeout = errors.New("startup timeout")
)

// run is one run on record: what it was asked, where it stands, what it left.
type run struct {
	id    string
	owner string
	plan  *plan // nil once the run has ended
	log   logbook.Log

	ctx  context.Context // ends when the run is to stop; its cause says why
	stop context.CancelCauseFunc

	mu       sync.Mutex
	state    belljar.Run
	captured *captured // nil until the run has ended
	input    *input    // standard input of an interactive run; nil until somebody asks for it
}

// newRun returns a run of a plan that is queued, and its log.
func (s *Service) newRun(caller belljar.Caller, p *plan) (*run, error) {
	id := belljar.NewID()
	log, err := s.opts.Logs.Create(id)
	if err != nil {
		return nil, &belljar.Error{Code: belljar.CodeInternal, Message: "log could not be created", Err: err}
	}
	r := &run{id: id, owner: caller.ID, plan: p, log: log}
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	r.state = belljar.Run{
		ID: id, Phase: belljar.PhaseQueued,
		SpecVersion: p.request.SpecVersion, Runtime: p.host.Name(), RuntimeVersion: p.caps.Version,
		BaseImage: p.image.Ref, ImageDigest: p.image.Digest, PolicyHash: s.policy,
		Command: p.request.Command, Labels: p.request.Labels,
		CreatedAt: time.Now().UTC(), LimitsEnforced: enforced(p.caps),
	}
	return r, nil
}

// snapshot is the run as it stands.
func (r *run) snapshot() belljar.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state
	s.Command = slices.Clone(s.Command)
	s.Warnings = slices.Clone(s.Warnings)
	return s
}

// artifacts is what a run left; nil until it has ended.
func (r *run) artifacts() *captured {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.captured
}

// ran is for how many seconds the command has run so far.
func (r *run) ran() float64 {
	if started := r.snapshot().StartedAt; started != nil {
		return time.Since(*started).Seconds()
	}
	return 0
}

// bytes is what a finished run takes to keep.
func (r *run) bytes() int64 {
	usage := r.state.ResourceUsage
	return usage.LogBytes + usage.ArtifactBytes
}
