package rest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
)

// world is an engine in memory that runs nothing: the output of a run is its command. It is for tests of formats; tests of
// behaviour use the real service.
type world struct {
	network   belljar.NetworkSpec
	mu        sync.Mutex
	requests  []belljar.RunRequest
	asked     []belljar.RunQuery
	runs      map[string]belljar.Run
	sessions  map[string]belljar.Session
	files     map[string]string // uploads by path
	workspace belljar.Files     // nil unless a test sets it
	images    belljar.Images    // nil unless a test sets it
	ports     belljar.Ports     // nil unless a test sets it
	contexts  belljar.Contexts  // nil unless a test sets it
	artifacts map[string]string
	quotas    map[string]belljar.Quota
	tokens    []belljar.Token
	secrets   []belljar.StoredSecret
	hold      map[string]chan struct{} // runs that end when the channel is closed
	began     chan struct{}            // gets a value for each start
	fail      error                    // the error of Start
	onPart    func(name string)        // called with every part of an upload that has been read
}

func newWorld() *world {
	return &world{
		runs: map[string]belljar.Run{}, sessions: map[string]belljar.Session{}, files: map[string]string{},
		artifacts: map[string]string{}, quotas: map[string]belljar.Quota{}, hold: map[string]chan struct{}{},
		began: make(chan struct{}, 16), images: newGallery(),
	}
}

var _ belljar.Engine = (*world)(nil)

func (w *world) As(c belljar.Caller) belljar.Service { return view{w, c} }

func now() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// view is the world for one caller.
type view struct {
	*world
	caller belljar.Caller
}

func (v view) Runs() belljar.Runs           { return runs{v} }
func (v view) Artifacts() belljar.Artifacts { return artifacts{v} }
func (v view) Sessions() belljar.Sessions   { return sessions{v} }
func (v view) Files() belljar.Files         { return v.workspace }
func (v view) Terminals() belljar.Terminals { return nil }
func (v view) Ports() belljar.Ports         { return v.ports }
func (v view) Contexts() belljar.Contexts   { return v.contexts }
func (v view) Images() belljar.Images       { return v.images }
func (v view) Usage() belljar.Usages        { return nil } // streams have it
func (v view) Node() belljar.Node           { return node{v} }
func (v view) Admin() belljar.Admin         { return admin{v} }

type (
	runs      struct{ view }
	artifacts struct{ view }
	sessions  struct{ view }
	node      struct{ view }
	admin     struct{ view }
)

func missing(what string) error {
	return &belljar.Error{Code: belljar.CodeNotFound, Message: "there is no such " + what}
}

func (v runs) Start(_ context.Context, req belljar.RunRequest) (belljar.Run, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.fail != nil {
		return belljar.Run{}, v.fail
	}
	if err := req.Validate(); err != nil {
		return belljar.Run{}, err
	}
	v.requests = append(v.requests, req)
	run := belljar.Run{
		ID: fmt.Sprintf("run-%d", len(v.requests)), UserID: v.caller.ID, Phase: belljar.PhaseStarting, SpecVersion: req.SpecVersion,
		Runtime: "native", BaseImage: req.BaseImage, SessionID: req.SessionID, Command: req.Command, Labels: req.Labels, PolicyHash: "9f86", CreatedAt: now(),
	}
	if req.Labels["queued"] != "" {
		run.Phase = belljar.PhaseQueued
		soon := now().Add(time.Second)
		run.EstimatedStartTime = &soon
	}
	if req.Labels["hold"] != "" {
		v.hold[run.ID] = make(chan struct{})
		v.began <- struct{}{}
	}
	if req.IdempotencyKey != "" {
		run.Details = &belljar.Replay{Key: req.IdempotencyKey, Status: "created"}
	}
	v.runs[run.ID] = run
	return run, nil
}

// finish ends a run.
func (w *world) finish(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	run, zero, at := w.runs[id], 0, now()
	run.Phase, run.ExitCode, run.StartedAt, run.FinishedAt = belljar.PhaseCompleted, &zero, &at, &at
	limits, cpu := belljar.DefaultLimits(), 0.25
	run.ResourceUsage = &belljar.ResourceUsage{CPUTimeSec: &cpu, WallTimeSec: 0.5, LogBytes: 3, Limits: &limits}
	w.runs[id] = run
	if held := w.hold[id]; held != nil {
		close(held)
		delete(w.hold, id)
	}
}

func (v runs) Get(_ context.Context, id string) (belljar.Run, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	run, ok := v.runs[id]
	if !ok || !v.caller.Sees(run.UserID) {
		return belljar.Run{}, missing("run")
	}
	run.Details = nil
	return run, nil
}

func (v runs) List(_ context.Context, q belljar.RunQuery) (belljar.RunPage, error) {
	q.UserID = v.caller.ID
	return v.list(q), nil
}

func (w *world) list(q belljar.RunQuery) belljar.RunPage {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, q)
	var found []belljar.Run
	for _, run := range w.runs {
		if q.UserID == "" || run.UserID == q.UserID {
			found = append(found, run)
		}
	}
	slices.SortFunc(found, func(a, b belljar.Run) int { return bytes.Compare([]byte(a.ID), []byte(b.ID)) })
	limit := q.Limit
	if limit == 0 {
		limit = 50
	}
	page := belljar.RunPage{Total: len(found), Limit: limit, Offset: q.Offset}
	page.Items = found[min(q.Offset, len(found)):min(q.Offset+limit, len(found))]
	page.HasMore = q.Offset+len(page.Items) < len(found)
	return page
}

func (v runs) Frames(ctx context.Context, id string, _ uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		run, err := v.Get(ctx, id)
		if err != nil {
			yield(belljar.Frame{}, err)
			return
		}
		for _, arg := range run.Command {
			if !yield(belljar.Frame{Type: belljar.FrameStdout, Output: []byte(arg)}, nil) {
				return
			}
		}
		v.mu.Lock()
		held := v.hold[id]
		v.mu.Unlock()
		if held == nil {
			v.finish(id)
			return
		}
		select {
		case <-held:
		case <-ctx.Done():
			yield(belljar.Frame{}, ctx.Err())
		}
	}
}

func (v runs) Stdin(context.Context, string) (belljar.Stdin, error) {
	return nil, errors.New("no door here asks for it")
}

func (v runs) Cancel(_ context.Context, id string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	run := v.runs[id]
	if !run.Phase.Terminal() {
		at := now()
		if run.Labels["late"] != "" { // its command ends first
			run.Phase, run.ExitCode, run.FinishedAt = belljar.PhaseCompleted, new(int), &at
			v.runs[id] = run
			return nil
		}
		run.Phase, run.ReasonCode, run.Message, run.FinishedAt = belljar.PhaseKilled, belljar.ReasonCanceledByUser, "canceled_by_user", &at
		v.runs[id] = run
	}
	return nil
}

func (v artifacts) List(ctx context.Context, id string) ([]belljar.Artifact, error) {
	if _, err := runs(v).Get(ctx, id); err != nil {
		return nil, err
	}
	var found []belljar.Artifact
	for path, content := range v.world.artifacts {
		found = append(found, belljar.Artifact{Path: path, Size: int64(len(content)), Mode: 0o644, Digest: digest(content)})
	}
	if len(found) > 0 {
		found = append(found, belljar.Artifact{Path: "link", LinkTarget: "elsewhere"}, belljar.Artifact{Path: "huge", Size: 1 << 40, Skipped: "artifact_cap_exceeded"})
	}
	slices.SortFunc(found, func(a, b belljar.Artifact) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) })
	return found, nil
}

func digest(content string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content))) }

func (v artifacts) Open(ctx context.Context, id, path string, offset int64) (belljar.Artifact, io.ReadCloser, error) {
	if _, err := runs(v).Get(ctx, id); err != nil {
		return belljar.Artifact{}, nil, err
	}
	content, ok := v.world.artifacts[path]
	if !ok {
		return belljar.Artifact{}, nil, missing("artifact")
	}
	a := belljar.Artifact{Path: path, Size: int64(len(content)), Digest: digest(content)}
	return a, io.NopCloser(bytes.NewReader([]byte(content[offset:]))), nil
}

func (v sessions) Create(_ context.Context, req belljar.SessionRequest) (belljar.Session, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := belljar.Session{
		ID: fmt.Sprintf("session-%d", len(v.world.sessions)+1), UserID: v.caller.ID, State: belljar.SessionActive, SpecVersion: req.SpecVersion,
		Runtime: "native", BaseImage: req.BaseImage, PolicyHash: "9f86", CreatedAt: now(), ExpiresAt: now().Add(time.Hour), Limits: belljar.DefaultLimits(),
	}
	if req.IdempotencyKey != "" {
		s.Details = &belljar.Replay{Key: req.IdempotencyKey, Status: "created"}
	}
	v.world.sessions[s.ID] = s
	return s, nil
}

func (v sessions) Get(_ context.Context, id string) (belljar.Session, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.world.sessions[id]
	if !ok || !v.caller.Sees(s.UserID) {
		return belljar.Session{}, missing("session")
	}
	return s, nil
}

func (v sessions) List(_ context.Context, q belljar.SessionQuery) (belljar.SessionPage, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var page belljar.SessionPage
	for _, s := range v.world.sessions {
		if s.UserID == v.caller.ID && (q.All || !s.State.Ended()) && strings.HasPrefix(s.ScopeKey, q.KeyPrefix) {
			page.Items = append(page.Items, s)
		}
	}
	page.Total, page.Limit, page.Offset = len(page.Items), 50, q.Offset
	return page, nil
}

func (v sessions) Upload(_ context.Context, id string, u belljar.Upload) (belljar.UploadResult, error) {
	result := belljar.UploadResult{SessionID: id}
	got := map[string]string{}
	for part, err := range u.Parts {
		if err != nil {
			return belljar.UploadResult{}, err
		}
		content, err := io.ReadAll(part.Body)
		if err != nil {
			return belljar.UploadResult{}, fmt.Errorf("spool: %w", err)
		}
		name := string(part.Format) + ":" + part.Name
		if u.Dir != "" {
			name = u.Dir + "/" + name
		}
		got[name] = string(content)
		if v.onPart != nil && result.FileCount == 0 {
			v.onPart(part.Name)
		}
		result.FileCount++
		result.BytesReceived += int64(len(content))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.Copy(v.files, got)
	return result, nil
}

func (v sessions) Delete(_ context.Context, id string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.world.sessions[id]
	if !ok || !v.caller.Sees(s.UserID) {
		return missing("session")
	}
	s.State = belljar.SessionClosed
	v.world.sessions[id] = s
	return nil
}

func (v node) Runtimes(context.Context) (belljar.Discovery, error) {
	return belljar.Discovery{StoreMode: "memory", Runtimes: []belljar.RuntimeInfo{{Name: "native", Available: true, ImplementationState: "supported", Isolation: "namespace"}}}, nil
}

func (v sessions) Network(ctx context.Context, id string) (belljar.NetworkSpec, error) {
	if _, err := v.Get(ctx, id); err != nil {
		return belljar.NetworkSpec{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.network, nil
}

func (v sessions) Hibernate(ctx context.Context, id string, spec belljar.HibernateSpec) (belljar.Session, error) {
	s, err := v.Get(ctx, id)
	if err == nil && !spec.Force {
		err = &belljar.Error{Code: belljar.CodeConflict, Message: "it is in use"}
	}
	s.State = belljar.SessionHibernated
	return s, err
}

func (v sessions) SetNetwork(ctx context.Context, id string, spec belljar.NetworkSpec) (belljar.NetworkSpec, error) {
	if _, err := v.Get(ctx, id); err != nil {
		return spec, err
	}
	if err := spec.Validate(); err != nil {
		return spec, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.network = spec
	return spec, nil
}

func (v node) CheckNetwork(_ context.Context, q belljar.NetworkQuery) (belljar.NetworkCheck, error) {
	if err := q.Validate(); err != nil {
		return belljar.NetworkCheck{}, err
	}
	return belljar.NetworkCheck{URL: q.URL, Host: "api.example.com", Port: 443, Reason: "no_match", Message: "no rule covers api.example.com"}, nil
}

func (node) NetworkPresets(_ context.Context, image string) ([]belljar.NetworkPreset, error) {
	learnt := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return []belljar.NetworkPreset{
		{Name: "pip", Enabled: true, Indexes: []string{"https://" + image + ".example.com/"}, Hosts: []string{"files.example.com"}, Source: "image", LearntAt: &learnt},
		{Name: "npm", Reason: "this server has the preset npm switched off", Hint: "an operator adds npm to SANDBOX_EGRESS_PRESETS"},
	}, nil
}

func (v node) Me(context.Context) (belljar.Me, error) {
	return belljar.Me{UserID: v.caller.ID, Role: v.caller.Role, PolicyHash: "9f86", Limits: belljar.DefaultLimits(), MaxLimits: belljar.MaxLimits()}, nil
}

func (v admin) Runs(_ context.Context, q belljar.RunQuery) (belljar.RunPage, error) {
	return v.list(q), nil
}

func (v admin) Approvals(context.Context, belljar.ApprovalQuery) (belljar.ApprovalPage, error) {
	return belljar.ApprovalPage{Items: []belljar.Approval{}, Limit: 50}, nil
}

func (v admin) Decide(_ context.Context, id string, d belljar.ApprovalDecision) (belljar.Approval, error) {
	if err := d.Validate(); err != nil {
		return belljar.Approval{}, err
	}
	return belljar.Approval{}, &belljar.Error{Code: belljar.CodeNotFound, Message: "no approval exists", Details: map[string]any{"approval_id": id}}
}

func (v admin) Idempotency(_ context.Context, q belljar.KeyQuery) ([]belljar.KeyEntry, error) {
	if q.Endpoint != "" && q.Endpoint != "runs" {
		return nil, nil
	}
	return []belljar.KeyEntry{{Endpoint: "runs", UserKey: "alice", Key: "k", ObjectID: "run-1", CreatedAt: now()}}, nil
}

func (v admin) Usage(context.Context, int) ([]belljar.UserUsage, error) {
	return []belljar.UserUsage{{UserID: "alice", ArtifactBytes: 7, CPUSecondsToday: 1.5}}, nil
}

func (v admin) Quota(_ context.Context, id string) (belljar.Quota, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	q, own := v.quotas[id]
	q.Own = own
	return q, nil
}

func (v admin) SetQuota(_ context.Context, id string, q *belljar.Quota) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if q == nil {
		delete(v.quotas, id)
	} else {
		v.quotas[id] = *q
	}
	return nil
}

func (v admin) CreateToken(_ context.Context, spec belljar.TokenSpec) (belljar.Token, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	t := belljar.Token{ID: fmt.Sprintf("token-%d", len(v.world.tokens)+1), UserID: spec.UserID, Role: belljar.RoleUser, Name: spec.Name, Prefix: "blj_ab", CreatedAt: now()}
	v.world.tokens = append(v.world.tokens, t)
	t.Secret = "blj_abcdef"
	return t, nil
}

func (v admin) Tokens(context.Context) ([]belljar.Token, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.world.tokens), nil
}

func (v admin) RevokeToken(_ context.Context, id string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := len(v.world.tokens)
	v.world.tokens = slices.DeleteFunc(v.world.tokens, func(t belljar.Token) bool { return t.ID == id })
	if len(v.world.tokens) == before {
		return missing("token")
	}
	return nil
}

func (v sessions) Open(ctx context.Context, req belljar.SessionRequest) (belljar.Session, bool, error) {
	if req.SpecVersion == "" {
		req.SpecVersion = "1.1"
	}
	if req.BaseImage == "" {
		req.BaseImage = "host"
	}
	v.mu.Lock()
	for _, s := range v.world.sessions {
		if s.UserID == v.caller.ID && !s.State.Ended() && s.ScopeKey == req.Scope.String() && s.ScopeKey != "" {
			v.mu.Unlock()
			return s, false, nil
		}
	}
	v.mu.Unlock()
	made, err := v.Create(ctx, req)
	made.ScopeKey = req.Scope.String()
	v.mu.Lock()
	v.world.sessions[made.ID] = made
	v.mu.Unlock()
	return made, true, err
}

func (v sessions) CloseAll(_ context.Context, req belljar.CloseRequest) (closed []string, err error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, s := range v.world.sessions {
		if s.UserID == v.caller.ID && !s.State.Ended() && strings.HasPrefix(s.ScopeKey, req.KeyPrefix) {
			s.State = belljar.SessionClosed
			v.world.sessions[id] = s
			closed = append(closed, id)
		}
	}
	slices.Sort(closed)
	return closed, nil
}
