package session

import (
	"context"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/secret"
	"github.com/belljar/belljar/internal/service/snapshot"
)

var _ snapshot.Workspace = Use{}

// errAsks refuses copies that an operator would have to approve: their files would have to wait with them.
var errAsks = &belljar.Error{
	Code: belljar.CodeConflict, Message: "a copy of the session needs an approval, which copies cannot wait for",
	Hint: "make a snapshot of the session, and a session of that",
}

// findSnapshot returns the snapshot that a session is to begin with; a zero one for none.
func findSnapshot(ctx context.Context, s *Sessions, caller belljar.Caller, spec belljar.SessionSpec) (belljar.Snapshot, error) {
	if spec.Snapshot == "" {
		return belljar.Snapshot{}, nil
	}
	return s.opts.Snapshots.Find(ctx, caller, spec.Snapshot)
}

// restore fills the workspace of a session that is being made with a snapshot, or with the files of the session that it is a copy of. The
// files that set its tools to its network come after these.
func restore(ctx context.Context, x *Session, b *box.Box) error {
	var err error
	switch {
	case x.fill != nil:
		var cwd string
		if cwd, err = x.fill(ctx, Use{b, x, x.ctx}); err == nil && cwd != "" {
			x.SetCwd(cwd)
		}
	case x.spec.Snapshot != "":
		err = x.all.opts.Snapshots.Fill(ctx, x.caller, x.spec.Snapshot, b)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	return b.Upload(ctx, nil, x.Placement().Files)
}

// Copy makes a session as a living one is, with what fill puts into its workspace, whose digest is given. It has no secrets and no scope, and the
// network that the other one has now.
func Copy(ctx context.Context, x *Session, caller belljar.Caller, digest string, fill snapshot.Fill) (belljar.Session, error) {
	x.mu.Lock()
	spec := x.spec
	x.mu.Unlock()
	spec.Secrets, spec.Git, spec.Snapshot, spec.Scope = nil, nil, "", belljar.Scope{}
	return create(ctx, x.all, caller, belljar.SessionRequest{SessionSpec: spec}, func(ctx context.Context, w snapshot.Workspace) (string, error) {
		if u, is := w.(Use); is {
			u.session.mu.Lock()
			u.session.state.SnapshotDigest = digest
			u.session.mu.Unlock()
		}
		return fill(ctx, w)
	})
}

// Discard ends a session that was made and is not needed, without waiting.
func Discard(x *Session) {
	x.end(belljar.SessionClosed, "the other copies could not be made", fault.ErrCanceled)
}

// Shell takes the session's shell until leave is called. It fails if the shell runs a command.
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

// Private reports what no copy of the session may have.
func (u Use) Private() (names map[string]bool, hidden func(text []byte) bool) {
	names = map[string]bool{"JAVA_TOOL_OPTIONS": true}
	for _, name := range belljar.TrustVars() {
		names[name] = true
	}
	if b := u.session.Placement().Broker; b != nil {
		for name := range b.Placeholders {
			names[name] = true
		}
	}
	secrets := u.session.spec.Secrets
	patterns := secret.Patterns(secrets)
	return names, func(text []byte) bool {
		for _, s := range secrets {
			// Short values are not among the patterns.
			if value := strings.TrimSpace(s.Value); value != "" && strings.Contains(string(text), value) {
				return true
			}
		}
		return patterns.In(text)
	}
}
