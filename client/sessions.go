package client

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/belljar/belljar"
)

// sessions implements [belljar.Sessions].
type sessions struct{ c *Client }

// Create creates a session. After a broken connection it retries with the same idempotency key.
func (s sessions) Create(ctx context.Context, req belljar.SessionRequest) (belljar.Session, error) {
	key := cmp.Or(req.IdempotencyKey, belljar.NewID())
	var session belljar.Session
	err := s.c.ask(ctx, request{
		method: http.MethodPost, path: route("sessions"), send: req.SessionSpec, header: http.Header{"Idempotency-Key": {key}},
		longer: making(req.SessionSpec),
	}, &session)
	return session, err
}

// Get returns a session.
func (s sessions) Get(ctx context.Context, id string) (belljar.Session, error) {
	var session belljar.Session
	return session, s.c.get(ctx, &session, nil, "sessions", id)
}

// List returns the caller's sessions.
func (s sessions) List(ctx context.Context, q belljar.SessionQuery) (belljar.SessionPage, error) {
	v := url.Values{}
	if q.All {
		v.Set("all", "true")
	}
	if q.KeyPrefix != "" {
		v.Set("key_prefix", q.KeyPrefix)
	}
	paging(v, q.Limit, q.Offset)
	var page belljar.SessionPage
	return page, s.c.get(ctx, &page, v, "sessions")
}

// Delete ends a session.
func (s sessions) Delete(ctx context.Context, id string) error {
	return s.c.ask(ctx, request{method: http.MethodDelete, path: route("sessions", id)}, nil)
}

// startup is added to Options.Silence for requests that wait for a sandbox to start.
func startup(sec float64) time.Duration {
	return time.Duration(min(max(sec, 60), 86400) * float64(time.Second))
}

// making is startup for a session: the steps before its sandbox take additional time.
func making(s belljar.SessionSpec) time.Duration {
	d := startup(s.StartupTimeoutSec)
	if s.Git != nil {
		d += max(2*time.Minute, d)
	}
	if len(s.Egress.Presets) > 0 {
		d += presetTime
	}
	if !s.Packages.IsZero() {
		d += 10 * time.Minute
	}
	if s.Template != "" { // it may be rebuilt first
		d += buildTime
	}
	return d
}

// Open returns the active session of a scope, or creates one. After a broken connection it retries with the same
// idempotency key, so that created stays correct.
func (s sessions) Open(ctx context.Context, req belljar.SessionRequest) (belljar.Session, bool, error) {
	key := cmp.Or(req.IdempotencyKey, belljar.NewID())
	var answer struct {
		belljar.Session
		Created bool `json:"created"`
	}
	err := s.c.ask(ctx, request{
		method: http.MethodPost, path: route("sessions", "open"), send: req.SessionSpec, header: http.Header{"Idempotency-Key": {key}},
		longer: making(req.SessionSpec),
	}, &answer)
	return answer.Session, answer.Created, err
}

// CloseAll ends the caller's sessions by their scope. After a broken connection it retries; the ids of sessions that the first
// request has ended are then missing.
func (s sessions) CloseAll(ctx context.Context, req belljar.CloseRequest) ([]string, error) {
	var answer struct {
		Closed []string `json:"closed"`
	}
	err := s.c.ask(ctx, request{method: http.MethodPost, path: route("sessions", "close"), send: req, longer: startup(0)}, &answer)
	return answer.Closed, err
}

// Hibernate saves a session and releases its sandbox until the next use.
func (s sessions) Hibernate(ctx context.Context, id string, spec belljar.HibernateSpec) (belljar.Session, error) {
	var state belljar.Session
	return state, snapshots(s).post(ctx, spec, &state, "sessions", id, "hibernate")
}

// Network returns a session's current network policy.
func (s sessions) Network(ctx context.Context, id string) (belljar.NetworkSpec, error) {
	var spec belljar.NetworkSpec
	return spec, s.c.get(ctx, &spec, nil, "sessions", id, "network")
}

// SetNetwork changes a session's network policy.
func (s sessions) SetNetwork(ctx context.Context, id string, spec belljar.NetworkSpec) (belljar.NetworkSpec, error) {
	var set belljar.NetworkSpec
	return set, s.c.ask(ctx, request{method: http.MethodPut, path: route("sessions", id, "network"), send: spec}, &set)
}
