package session

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/install"
	"github.com/belljar/belljar/internal/service/secret"
	"github.com/belljar/belljar/internal/service/snapshot"
	"github.com/belljar/belljar/internal/shelf"
)

var _ snapshot.Workspace = Use{}

// errAsks refuses copies that would need an approval: their files would have to wait as well.
var errAsks = &belljar.Error{
	Code: belljar.CodeConflict, Message: "a copy of the session needs an approval, which copies cannot wait for",
	Hint: "make a snapshot of the session, and a session of that",
}

// findSnapshot returns the snapshot with a new session's initial files; a zero one for none.
func findSnapshot(ctx context.Context, s *Sessions, caller belljar.Caller, spec belljar.SessionSpec) (belljar.Snapshot, error) {
	if spec.Snapshot == "" {
		return belljar.Snapshot{}, nil
	}
	return s.opts.Snapshots.Find(ctx, caller, spec.Snapshot)
}

// beginning returns the source of a new session's initial files; nil for none.
func beginning(ctx context.Context, x *Session) (*snapshot.Source, error) {
	switch {
	case x.from != nil:
		return x.from.files, nil
	case x.spec.Snapshot != "":
		return x.all.opts.Snapshots.Source(ctx, x.caller, x.spec.Snapshot)
	}
	from, err := x.all.opts.Templates.Source(ctx, x.caller, x.spec.Template)
	if from != nil { // the template may have been rebuilt since the admission
		x.mu.Lock()
		defer x.mu.Unlock()
		x.state.SnapshotDigest = from.Digest()
	}
	return from, err
}

// makeBox makes the sandbox of a session, with its initial files. The box is returned even with an error, if there is a sandbox.
func makeBox(ctx context.Context, x *Session, packages *install.Ready, from *snapshot.Source) (b *box.Box, err error) {
	s := x.all
	defer func() {
		if b == nil {
			packages.Release()
		}
	}()
	x.mu.Lock()
	x.below = ""
	wakes := x.asleep.saved != nil
	x.mu.Unlock()
	var layer *shelf.Layer
	if from != nil {
		if layer, err = from.Lay(ctx, x.Placement()); err != nil {
			return nil, err
		}
		packages = packages.Holding(layer)
		begin(x, from, layer)
	}
	order := box.Order{
		ID: x.id, Caller: x.caller, Placement: x.place, OnImage: x.setImage,
		Made: func(sandbox runtime.Sandbox) {
			packages.Until(s.opts.Closed, sandbox)
			s.opts.Memory.Hold(x.id, sandbox, x.endForMemory)
		},
		Egress: x.Network.recordEgress,
	}
	b, err = s.opts.Boxes.Make(ctx, order)
	if b == nil && layer != nil && !from.Live() && errors.Is(err, errors.ErrUnsupported) { // the runtime detects that only now
		layer = nil
		begin(x, from, nil)
		b, err = s.opts.Boxes.Make(ctx, order)
	}
	if from == nil {
		return b, err
	}
	begin(x, from, nil) // no other sandbox of the session uses it
	if err != nil {
		return b, err
	}
	u := Use{b, x, ctx}
	cwd, err := from.Fill(ctx, u, layer)
	if err == nil {
		x.mu.Lock()
		x.state.Cwd = cwd
		x.mu.Unlock()
	}
	if from.Live() {
		layer.Release() // a state is read only once
	}
	if err == nil && from.Live() && !wakes {
		shells, err := agent.Shells(ctx, b.Agent)
		x.Contexts.Recover(shells, err, nil, s.now())
	}
	if err == nil && layer == nil {
		err = b.Upload(ctx, nil, x.Placement().Files) // they overwrite the others
	}
	return b, err
}

// begin makes a layer the initial content of the session's sandbox.
func begin(x *Session, from *snapshot.Source, l *shelf.Layer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if from.On(x.place, l); l != nil {
		x.below = l.Dir
	}
}

// original is what a copy has of the session that it copies, besides its spec.
type original struct {
	files    *snapshot.Source
	image    runtime.Root         // with the layers of its packages
	packages *belljar.PackageLock // nil for none
	limits   belljar.Limits
}

// inherit gives a copy the limits of its original: the server's defaults may have changed. Its disk is its own.
func inherit(x *Session, l belljar.Limits) error {
	asked := belljar.RunSpec{
		Resources: belljar.Resources{
			CPU: l.CPU, MemoryMB: l.MemoryMB, Pids: l.Pids, NoFile: l.NoFile, NProc: l.NProc, WorkspaceMB: l.WorkspaceMB, LogBytes: l.LogBytes, ArtifactMB: l.ArtifactMB,
		},
		StartupTimeoutSec: l.StartupTimeoutSec, TimeoutSec: l.TimeoutSec, BuildTimeoutSec: l.BuildTimeoutSec, CPUTimeSec: l.CPUTimeSec,
	}
	if x.place.Workspace.OnDisk() {
		l.WorkspaceMB, asked.Resources.WorkspaceMB = x.place.Limits.WorkspaceMB, 0
	}
	if _, err := l.ResolveRun(&asked, x.all.opts.Rules.MaxLimits); err != nil {
		return err
	}
	x.place.Limits = l
	x.place.Bind()
	x.state.Limits = x.place.InForce()
	return nil
}

// Copy makes a session like a live one, with the files of from and the same versions of packages. It has no secrets and no scope, and the
// current network of the original.
func Copy(ctx context.Context, x *Session, caller belljar.Caller, from *snapshot.Source) (belljar.Session, error) {
	x.mu.Lock()
	spec := x.spec
	spec.Runtime = x.state.Runtime // independent of the current default
	of := &original{from, x.place.Image, x.state.Packages, x.place.Limits}
	x.mu.Unlock()
	if w := x.Placement().Workspace; w.OnDisk() { // the copy has its own disk
		spec.Workspace = belljar.Workspace{Medium: w.Medium, MB: w.MB}
	}
	spec.Secrets, spec.Git, spec.Snapshot, spec.Template, spec.Scope = nil, nil, "", "", belljar.Scope{}
	made, err := create(ctx, x.all, caller, belljar.SessionRequest{SessionSpec: spec}, of)
	return made, refusedLimit(x.id, err)
}

// refusedLimit returns the error of a copy whose original has a limit above the maximum: the caller's request has no such field.
func refusedLimit(id string, err error) error {
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodePolicyDenied {
		return err
	}
	has, known := e.Details["provided"].(float64)
	most, limited := e.Details["maximum"].(float64)
	if !known || !limited {
		return err
	}
	return &belljar.Error{
		Code:    e.Code,
		Message: fmt.Sprintf("the session has %v %.15g, above this server's maximum of %.15g now", e.Details["field"], has, most),
		Details: map[string]any{"session_id": id, "maximum": most}, Hint: "make a snapshot of the session, and a session of that",
	}
}

// Discard ends a session that is not needed, without waiting.
func Discard(x *Session) {
	x.end(belljar.SessionClosed, "the other copies could not be made", fault.ErrCanceled)
}

// Shell reserves the session's shell until leave is called. It fails if the shell runs a command.
func (u Use) Shell() (leave func(), ok bool) {
	t, err := u.session.shell.Enter("copy of "+u.session.id, 0)
	if err != nil {
		return nil, false
	}
	if t.Waited() {
		t.Leave()
		return nil, false
	}
	return t.Leave, true
}

// Private reports what a copy of the session must not contain.
func (u Use) Private() (names map[string]bool, hidden func(text []byte) bool, delivered bool) {
	names = map[string]bool{}
	if b := u.session.Placement().Broker; b != nil {
		for _, name := range append(belljar.TrustVars(), "JAVA_TOOL_OPTIONS") {
			names[name] = true
		}
		for name := range b.Placeholders {
			names[name] = true
		}
	}
	secrets := u.session.spec.Secrets
	patterns := secret.Patterns(secrets)
	return names, func(text []byte) bool {
		for _, s := range secrets {
			// The patterns omit short values.
			if value := strings.TrimSpace(s.Value); value != "" && strings.Contains(string(text), value) {
				return true
			}
		}
		return patterns.In(text)
	}, len(secrets) > 0
}
