package cli

import (
	"cmp"
	"os"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/field"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/quantity"
)

// gitFlags name the repository to clone into a new workspace.
type gitFlags struct {
	Git         string          `placeholder:"URL" help:"Begin with the files of a Git repository, cloned over HTTPS in a sandbox of its own. It needs no --allow."`
	Ref         string          `placeholder:"REF" help:"Branch, tag, or whole hash of a commit of the repository."`
	Depth       *quantity.Count `placeholder:"N" help:"Number of commits of history (default 1)."`
	Patch       string          `placeholder:"FILE" help:"Unified diff to apply to the repository's files."`
	Subdir      string          `placeholder:"DIR" help:"Folder of the repository that becomes the workspace."`
	KeepGit     bool            `help:"Keep the repository's .git."`
	GitSecret   string          `placeholder:"NAME" help:"Clone with the secret NAME of --secret. The clone's sandbox never has it."`
	KeepIgnored bool            `help:"Keep files that the repository's .dockerignore names."`
}

// spec returns the flags as part of a request; nil without --git.
func (g *gitFlags) spec() (*belljar.GitSpec, error) {
	if g.Git == "" {
		if stray := cmp.Or(g.Ref, g.Patch, g.Subdir, g.GitSecret); stray != "" || g.Depth != nil || g.KeepGit || g.KeepIgnored {
			return nil, mistake.New("--git URL", "--ref, --depth, --patch, --subdir, --keep-git, --keep-ignored and --git-secret need --git")
		}
		return nil, nil
	}
	spec := &belljar.GitSpec{URL: g.Git, Ref: g.Ref, Depth: int(whole(g.Depth)), Subdir: g.Subdir, KeepGit: g.KeepGit, KeepIgnored: g.KeepIgnored, Secret: g.GitSecret}
	if g.Patch != "" {
		patch, err := os.ReadFile(g.Patch)
		if err != nil {
			return nil, mistake.New("", "--patch %s: %s", g.Patch, mistake.Reason(err))
		}
		spec.Patch = string(patch)
	}
	if err := spec.Validate(); err != nil {
		return nil, field.InFlags(err)
	}
	return spec, nil
}

// noteClone prints the progress of a clone.
func (c *console) noteClone(f belljar.Frame) {
	switch f.Data["state"] {
	case "cloning":
		c.Note("cloning %v", f.Data["url"])
	case "cloned":
		c.Note("cloned commit %.12v, %v files", f.Data["commit"], f.Data["files"])
	}
}
