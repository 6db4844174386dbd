// Package remote provides workspaces on other machines: sessions of another belljar, and sessions of this one whose sandbox is on another
// machine.
package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/internal/upstream"
	"github.com/belljar/belljar/internal/workspace"
)

// Options configure [New]. URL and Key are required.
type Options struct {
	URL, Key string // of the other belljar
	Image    string // of a session that is made; "" is the other server's default
	Guard    upstream.Options
	// Ready gets the duration of each check of the server, and the reason of a failure; nil is none.
	Ready func(took time.Duration, why upstream.Reason)
}

// Source provides sessions of another belljar. All callers share one key there. Each has its own scope, and sees no other caller's session.
type Source struct {
	opts  Options
	guard *upstream.Guard
	check *upstream.Check
	known workspace.Known
}

var _ workspace.Source = (*Source)(nil)

// New returns a source. It connects to nothing.
func New(o Options) (*Source, error) {
	g := o.Guard
	g.URL, g.Token = o.URL, o.Key
	g.Alive = func(resp *http.Response) bool { return ownError(resp, o.Key) != "" }
	g.MaxBytes, g.Patience = 1<<30, 2*time.Minute // files are long, and a request may wait for a run
	g.Allow = []upstream.Rule{
		{Methods: []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}, Path: "/api/v1/sandbox", Below: true},
		{Methods: []string{"GET"}, Path: "/workspace/healthz"}, {Methods: []string{"GET"}, Path: "/workspace/__meta/version"},
	}
	guard, err := upstream.New(g)
	if err != nil {
		return nil, err
	}
	check := upstream.NewCheck(upstream.CheckOptions{
		Guard: guard, Version: workspace.APIVersion, Health: "/workspace/healthz", Meta: "/workspace/__meta/version", Observe: o.Ready,
	})
	return &Source{opts: o, guard: guard, check: check, known: workspace.Known{Trust: trust}}, nil
}

// Mode is remote.
func (*Source) Mode() string { return "remote" }

// Close closes idle connections.
func (s *Source) Close() error {
	s.guard.Close()
	return nil
}

// Check returns the reason why the other belljar cannot be used; nil if it can.
func (s *Source) Check(ctx context.Context) error { return s.check.Ready(ctx) }

// Ready returns the state of the other belljar.
func (s *Source) Ready(ctx context.Context) workspace.Readiness {
	return readiness(ctx, s.Check, s.guard.Circuit)
}

// trust is how long a workspace is used without a check that it is alive: each check takes as long as a browser's own request.
const trust = time.Second

// patience is how long a request is retried while the other belljar does not answer. The browser waits for it.
const patience = 3 * time.Second

// Open returns a workspace of a caller. Its requests carry the id of the caller's.
func (s *Source) Open(ctx context.Context, caller belljar.Caller, session string) (workspace.Workspace, error) {
	// The client is never closed: only its background work requires that, and workspaces start none.
	c, err := client.New(client.Options{
		URL: s.guard.URL("", nil), Source: "workspace", Patience: patience, HTTP: &http.Client{Transport: carrier{s.guard, caller.RequestID, s.opts.Key}},
	})
	if err != nil {
		return workspace.Workspace{}, err
	}
	mine := nameOf(caller)
	spec := workspace.Spec(s.opts.Image)
	spec.Scope.ID = "workspace-" + mine
	spec.Labels = map[string]string{workspace.Owner: mine}
	if session != "" {
		return workspace.Open(ctx, c, session, spec)
	}
	return s.known.Open(ctx, c, mine, spec)
}

// nameOf returns a caller's name at the other belljar: safe for all ids, and without a way to guess the caller from it.
func nameOf(caller belljar.Caller) string {
	sum := sha256.Sum256([]byte(caller.ID))
	return hex.EncodeToString(sum[:16])
}

// carrier sends the requests of one caller. It passes the other belljar's own errors to a browser, such as that a file does not exist, and
// replaces all other error responses.
type carrier struct {
	guard *upstream.Guard
	id    string // of the caller's request
	key   string
}

// maxError is the maximum length of an error of the other belljar, in bytes.
const maxError = 64 << 10

// RoundTrip implements [http.RoundTripper].
func (c carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.id != "" {
		r = r.Clone(r.Context())
		r.Header.Set(upstream.RequestIDHeader, c.id)
	}
	resp, err := c.guard.RoundTrip(r)
	var failed *upstream.Failure
	switch {
	case errors.As(err, &failed):
		return unavailable(r), nil
	case err != nil:
		return nil, err
	case resp.StatusCode < 400:
		return resp, nil
	}
	code := ownError(resp, c.key)
	// A refused key concerns only the two servers, not the caller's credentials. Of the errors from 500 on, these two are about the caller's
	// session.
	if code == "" || resp.StatusCode == http.StatusUnauthorized || resp.StatusCode >= 500 && code != belljar.CodeDiskFull && code != belljar.CodeTimeout {
		return unavailable(r), nil
	}
	return resp, nil
}

// ownError returns the code of an error response that is one of a belljar and does not contain our key; else "". It replaces the body by one in
// memory.
func ownError(resp *http.Response, key string) belljar.Code {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	var e struct {
		Error struct {
			Code belljar.Code `json:"code"`
		} `json:"error"`
	}
	if err != nil || json.Unmarshal(body, &e) != nil || bytes.Contains(body, []byte(key)) ||
		!slices.ContainsFunc(belljar.Table(), func(row belljar.CodeInfo) bool { return row.Code == e.Error.Code }) {
		return ""
	}
	return e.Error.Code
}

// unavailable returns the response while the other belljar is unavailable.
func unavailable(r *http.Request) *http.Response {
	const body = `{"error":{"code":"runtime_unavailable","message":"the workspace is not available now"}}`
	return &http.Response{
		StatusCode: http.StatusServiceUnavailable, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": {"application/json"}, "Retry-After": {"1"}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}
