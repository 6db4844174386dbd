// Package workspace is the contract between the workspace API and the engines that hold its files and run its programs.
//
// A workspace is a session of an engine: of this server, of a private one over a folder of this machine, or of one elsewhere. The API
// therefore needs only the nouns and the interfaces of the root package, and behaves alike with all of them.
package workspace

import (
	"context"

	"github.com/belljar/belljar"
)

// Source provides the workspaces of callers. Its methods are safe for concurrent use.
type Source interface {
	// Mode is sandbox, local or remote, as GET /api/config shows it.
	Mode() string
	// Open returns a workspace of a caller. session is the id of one of the caller's sessions; "" is the caller's own workspace, which is
	// made if it does not exist. The error is [belljar.CodeNotFound] for a session that the caller may not see, and
	// [belljar.CodeRuntimeUnavailable] while the source's own server or machine does not answer. Callers see errors: these contain no
	// credentials, addresses or responses of that server.
	Open(ctx context.Context, caller belljar.Caller, session string) (Workspace, error)
	// Ready returns the state of the systems that workspaces depend on. It may be called often, and without authentication: it answers
	// within a second.
	Ready(ctx context.Context) Readiness
}

// Workspace is one session, as its caller sees it.
type Workspace struct {
	Engine Engine
	// Session is the id of the session in Engine. Tokens contain it, so it stays the same while programs live in it.
	Session string
	// Root is the folder of the files as programs see it, such as /workspace.
	Root string
	// Runtime is that of the session, if [Open] has read it.
	Runtime string
	// Git is called before each git command; its error refuses the command. nil allows all.
	Git func(context.Context) error
}

// Engine is the part of a [belljar.Service] that workspaces use.
type Engine interface {
	Files() belljar.Files
	Terminals() belljar.Terminals
	Runs() belljar.Runs
}

// Readiness is the state of the systems that workspaces depend on.
type Readiness struct {
	State   string `json:"state"`            // ready | degraded | down
	Circuit string `json:"circuit"`          // closed | half-open | open
	Reason  string `json:"reason,omitempty"` // auth | unreachable | bad_path | version_mismatch | … ; "" if it is ready
}

// Owner is the label that names a session's caller, where sessions of many callers have one owner.
const Owner = "workspace_user"

// Open returns the workspace that is a session of an engine: the session of that id, or for "" the living session of spec.Scope, which it
// makes from spec if there is none. The error is [belljar.CodeNotFound] for a session that has ended, and for one whose [Owner] is not
// spec's.
func Open(ctx context.Context, s belljar.Service, session string, spec belljar.SessionSpec) (Workspace, error) {
	var (
		found belljar.Session
		err   error
	)
	if session == "" {
		found, _, err = s.Sessions().Open(ctx, belljar.SessionRequest{SessionSpec: spec})
	} else {
		found, err = s.Sessions().Get(ctx, session)
	}
	switch {
	case err != nil:
		return Workspace{}, err
	case found.State.Ended(), spec.Labels[Owner] != "" && found.Labels[Owner] != spec.Labels[Owner]:
		return Workspace{}, &belljar.Error{Code: belljar.CodeNotFound, Message: "session not found"}
	}
	return Workspace{Engine: s, Session: found.ID, Root: belljar.WorkspaceDir, Runtime: found.Runtime}, nil
}

// Spec returns the specification of a caller's own workspace.
func Spec(image string) belljar.SessionSpec {
	return belljar.SessionSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: image, WorkspaceExec: true,
		Scope: belljar.Scope{Namespace: "user", ID: "workspace"},
	}
}
