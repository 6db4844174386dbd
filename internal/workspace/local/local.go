// Package local provides one folder of this machine as the workspace of its operators. Its programs run without a
// sandbox.
package local

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/workspace"
)

// Source provides a folder as the workspace. Its engine makes sandboxes of only that folder.
type Source struct {
	Engine belljar.Engine
	Dir    string

	known workspace.Known
}

var _ workspace.Source = (*Source)(nil)

// Mode is local.
func (*Source) Mode() string { return "local" }

// Open returns the workspace, for operators on this machine only.
func (s *Source) Open(ctx context.Context, caller belljar.Caller, session string) (workspace.Workspace, error) {
	switch address, err := netip.ParseAddr(caller.Address); {
	case !caller.Admin():
		return workspace.Workspace{}, forbidden("the mode local is for operators")
	case caller.Address != "" && (err != nil || !address.Unmap().IsLoopback()): // "" is a unix socket
		return workspace.Workspace{}, forbidden("the mode local is for requests from its own machine")
	case session != "":
		return workspace.Workspace{}, &belljar.Error{Code: belljar.CodeNotFound, Message: "session not found"}
	}
	spec := workspace.Spec("")
	spec.WorkspaceExec = false // execution would need a folder for temporary files there
	spec.Env = map[string]string{"HOME": s.Dir, "PWD": s.Dir}
	w, err := s.known.Open(ctx, s.Engine.As(caller), caller.ID, spec)
	w.Root, w.Git = s.Dir, s.git
	return w, err
}

func forbidden(text string) error { return &belljar.Error{Code: belljar.CodeForbidden, Message: text} }

// Ready checks that the folder exists.
func (s *Source) Ready(context.Context) workspace.Readiness {
	if info, err := os.Stat(s.Dir); err != nil || !info.IsDir() {
		return workspace.Readiness{State: "down", Circuit: "closed", Reason: "unreachable"}
	}
	return workspace.Readiness{State: "ready", Circuit: "closed"}
}

// git refuses a repository that is not plainly in the folder, or whose configuration can name programs.
func (s *Source) git(ctx context.Context) error {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return unsafe("the folder cannot be read")
	}
	defer root.Close()
	exists := func(name string) bool { _, err := root.Lstat(name); return !errors.Is(err, fs.ErrNotExist) }
	if exists("HEAD") && (exists("objects") || exists("commondir")) { // git takes the folder itself for a repository without files
		return unsafe("the folder is a bare repository")
	}
	info, err := root.Lstat(".git")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // git itself reports it
	}
	if err != nil || !info.IsDir() {
		return unsafe(".git is not a folder")
	}
	for _, name := range []string{"commondir", "config.worktree", "objects/info/alternates", "objects/info/http-alternates"} {
		if exists(".git/" + name) {
			return unsafe(".git/" + name + " exists")
		}
	}
	for _, name := range []string{"config", "HEAD", "index", "objects", "refs", "info", "info/attributes", "info/exclude", "hooks"} {
		if info, err := root.Lstat(".git/" + name); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return unsafe(".git/" + name + " is a link")
		}
	}
	raw, err := root.ReadFile(".git/config")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unsafe(".git/config cannot be read")
	}
	if key := strange(string(raw)); key != "" {
		return unsafe(".git/config sets " + key)
	}
	return ctx.Err()
}

func unsafe(why string) error {
	return &belljar.Error{
		Code: belljar.CodePolicyDenied, Message: "git is not used in this repository: " + why,
		Hint: "work in a sandbox (SANDBOX_WORKSPACE_MODE=sandbox), or use git in a terminal",
	}
}
