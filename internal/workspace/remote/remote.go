// Package remote has the workspaces that are elsewhere: sessions of another belljar, and sessions of this one whose sandbox is on a
// machine elsewhere.
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
	// Ready learns how long it took to find out whether the server can be used, and why not; nil is none.
	Ready func(took time.Duration, why upstream.Reason)
}

// Source has sessions of another belljar. All callers share one key there: each has a scope of their own, and sees no other's session.
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

// Check returns why the other belljar cannot be used; nil if it can.
func (s *Source) Check(ctx context.Context) error { return s.check.Ready(ctx) }

// Ready returns the state of the other belljar.
func (s *Source) Ready(ctx context.Context) workspace.Readiness {
	return readiness(ctx, s.Check, s.guard.Circuit)
}

// trust is how long a workspace is used without a further question whether it is there: each question takes as long as what a browser asked.
const trust = time.Second

// patience is how long a request is repeated while the other belljar does not answer. A browser waits meanwhile.
const patience = 3 * time.Second

// Open returns a workspace of a caller. Its requests carry the id of the caller's.
func (s *Source) Open(ctx context.Context, caller belljar.Caller, session string) (workspace.Workspace, error) {
	// Of the client only its background work needs to be closed, which workspaces do not start.
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

// nameOf is a caller's name there: of any characters, and of no use to guess who it is.
func nameOf(caller belljar.Caller) string {
	sum := sha256.Sum256([]byte(caller.ID))
	return hex.EncodeToString(sum[:16])
}

// carrier sends the requests of one caller. A browser sees the errors of the other belljar, such as that a file does not exist. It sees
// nothing else that comes from there in place of an answer.
type carrier struct {
	guard *upstream.Guard
	id    string // of the caller's request
	key   string
}

// maxError is the longest error of the other belljar, in bytes.
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
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	// A refused key is a matter between two servers, which the caller's credentials have nothing to do with.
	if err != nil || resp.StatusCode >= 500 || resp.StatusCode == http.StatusUnauthorized || !c.belljar(body) {
		return unavailable(r), nil
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}

// belljar reports whether an error is one of a belljar's, with nothing of ours in it.
func (c carrier) belljar(body []byte) bool {
	var e struct {
		Error struct {
			Code belljar.Code `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &e) != nil || bytes.Contains(body, []byte(c.key)) {
		return false
	}
	return slices.ContainsFunc(belljar.Table(), func(row belljar.CodeInfo) bool { return row.Code == e.Error.Code })
}

// unavailable is the answer while the other belljar has none.
func unavailable(r *http.Request) *http.Response {
	const body = `{"error":{"code":"runtime_unavailable","message":"the workspace is not available now"}}`
	return &http.Response{
		StatusCode: http.StatusServiceUnavailable, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": {"application/json"}, "Retry-After": {"1"}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}
