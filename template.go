package belljar

import (
	"context"
	"strings"
	"time"
)

// TemplateSpec is what a template is made of. Its first fields are those of a [SessionSpec]: a session or run of the template has them,
// unless its own request sets others.
type TemplateSpec struct {
	Name          string            `json:"name"` // a-z, 0-9, - _ .; at most 64
	BaseImage     string            `json:"base_image"`
	Runtime       string            `json:"runtime,omitempty"`
	Resources     Resources         `json:"resources,omitzero"`
	NetworkPolicy string            `json:"network_policy,omitempty"` // deny_all | allowlist
	Egress        Egress            `json:"egress,omitzero"`          // of an allowlist
	Packages      Packages          `json:"packages,omitzero"`
	Env           map[string]string `json:"env,omitempty"`
	WorkspaceExec bool              `json:"workspace_exec,omitempty"`
	// Snapshot is the id of the caller's snapshot whose files the build begins with; "" for none. The template keeps the files.
	Snapshot string `json:"snapshot,omitempty"`
	// Run is shell commands that make the template's files, in /workspace. They are executed once, when it is built.
	Run []string `json:"run,omitempty"`
	// Start is shell commands that are executed in each new sandbox of the template, before it can be used. What they leave running
	// stays. A session that wakes, and a copy of a session, do not execute them.
	Start []string `json:"start,omitempty"`
	// TimeoutSec bounds each command of Run; 0 is the server's default for a run.
	TimeoutSec float64 `json:"timeout_sec,omitempty" minimum:"0.001"`
	// Shared makes it a template of all users. Only an operator may.
	Shared bool `json:"shared,omitempty"`
	// Rebuild builds it even if nothing has changed.
	Rebuild bool `json:"rebuild,omitempty"`
}

// Template is the environment of sessions and runs by a name.
type Template struct {
	TemplateSpec
	UserID         string    `json:"user_id,omitempty"`      // who built it
	Digest         string    `json:"digest"`                 // SHA-256 of all that it was made of, as sha256:…, without the image
	ImageDigest    string    `json:"image_digest,omitempty"` // of the image that it was built with; "" for host
	SnapshotDigest string    `json:"snapshot_digest"`        // of its files
	Bytes          int64     `json:"bytes"`                  // of its files
	Files          int       `json:"files"`
	Reason         string    `json:"reason"`            // why it was built last: new, changed, asked, image_changed, image_removed
	BuiltAt        time.Time `json:"built_at,omitzero"` // zero while it is built for the first time
	// Building is what a build that is under way does: create (its session, with the packages), run[0], run[1] …, or save (its files).
	// "" without a build. The other fields are those of the template as it can be used or, for the first build, as it was asked for.
	Building   string `json:"building,omitempty"`
	BuildRunID string `json:"build_run_id,omitempty"` // of the command that the build executes
}

// maxTemplateCommands bounds the commands of a template, of each kind.
const maxTemplateCommands = 64

// Validate checks a request. The error is [CodeInvalidRequest] and names the field.
func (s TemplateSpec) Validate() error {
	if err := checkKeptName("template", "name", s.Name); err != nil {
		return err
	}
	if s.BaseImage == "" {
		return invalid("base_image", "base_image is required")
	}
	if s.TimeoutSec < 0 {
		return invalid("timeout_sec", "timeout_sec must be 0 or more")
	}
	for field, commands := range map[string][]string{"run": s.Run, "start": s.Start} {
		if len(commands) > maxTemplateCommands {
			return invalid(field, "%s is limited to %d commands", field, maxTemplateCommands)
		}
		for _, cmd := range commands {
			if strings.TrimSpace(cmd) == "" || strings.ContainsRune(cmd, 0) || len(cmd) > maxTemplateCommandBytes {
				return invalid(field, "a command of %s is empty, has a null byte, or more than %d bytes", field, maxTemplateCommandBytes)
			}
		}
	}
	jar := SessionSpec{Env: s.Env, Packages: s.Packages, Snapshot: s.Snapshot, NetworkPolicy: s.NetworkPolicy, Egress: s.Egress}
	return jar.Validate()
}

const maxTemplateCommandBytes = 64 << 10

// checkTemplate checks the template in a request that asks for other things, too.
func checkTemplate(name, snapshot string, git *GitSpec) error {
	switch {
	case name == "":
		return nil
	case snapshot != "":
		return invalid("snapshot", "snapshot and template exclude each other: the template has the files")
	case git != nil:
		return invalid("git", "git and template exclude each other: each is what the workspace begins with")
	}
	return checkKeptName("template", "template", name)
}

// checkTemplate checks the template of a run.
func (s *RunSpec) checkTemplate() error {
	switch {
	case s.Template == "":
		return nil
	case s.SessionID != "":
		e := invalid("template", "template cannot be set for a run in a session: the session's sandbox is made already")
		e.Hint = "make the session with it"
		return e
	case s.BuildCache:
		return invalid("build_cache", "build_cache and template exclude each other: the template brings files that the request does not name")
	case s.Workspace.ReadOnly:
		return invalid("template", "the files of a template cannot be put into a workspace that is read-only")
	}
	return checkTemplate(s.Template, s.Snapshot, s.Git)
}

// Templates is the templates of a caller. A session or run has one by its name ([SessionSpec.Template], [RunSpec.Template]): the caller's
// own, or else a shared one.
type Templates interface {
	// Build makes a template, or makes it again in place of the one of its name. It is answered as it is if nothing has changed. A build is
	// a session of the caller's, with a run for each command; one that fails leaves the template as it was.
	Build(ctx context.Context, spec TemplateSpec) (Template, error)
	// Get returns a template, which may be one that is built for the first time; [CodeNotFound] if there is none.
	Get(ctx context.Context, name string) (Template, error)
	// List returns the caller's templates and the shared ones, by name, with those that are built for the first time.
	List(ctx context.Context) ([]Template, error)
	// Remove removes the caller's template or, for an operator, a shared one. Sessions and runs of it keep their files.
	Remove(ctx context.Context, name string, shared bool) error
}
