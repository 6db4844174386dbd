package belljar

import (
	"context"
	"strings"
	"time"
)

// TemplateSpec is a request to build a template. Its first fields are those of a [SessionSpec]: they are defaults for the sessions and runs
// that use the template.
type TemplateSpec struct {
	Name          string            `json:"name" minLength:"1"` // a-z, 0-9, - _ .; at most 64
	BaseImage     string            `json:"base_image" minLength:"1"`
	Runtime       string            `json:"runtime,omitempty"`
	Resources     Resources         `json:"resources,omitzero"`
	NetworkPolicy string            `json:"network_policy,omitempty"` // deny_all | allowlist
	Egress        Egress            `json:"egress,omitzero"`          // of an allowlist
	Packages      Packages          `json:"packages,omitzero"`
	Env           map[string]string `json:"env,omitempty"`
	WorkspaceExec bool              `json:"workspace_exec,omitempty"`
	// Snapshot is the id of the caller's snapshot that provides the build's initial files; "" for none. The template keeps the files.
	Snapshot string `json:"snapshot,omitempty"`
	// Run is shell commands that make the template's files, in /workspace. They run once, during the build.
	Run []string `json:"run,omitempty"`
	// Start is shell commands that run in each new sandbox of the template, before it is usable. Processes that they leave running
	// continue. They do not run when a session resumes or is copied.
	Start []string `json:"start,omitempty"`
	// TimeoutSec bounds each command of Run; 0 is the server's default for a run.
	TimeoutSec float64 `json:"timeout_sec,omitempty" minimum:"0.001"`
	// Shared makes the template available to all users. Operators only.
	Shared bool `json:"shared,omitempty"`
	// Rebuild forces a build even if nothing has changed.
	Rebuild bool `json:"rebuild,omitempty"`
}

// Template is a named environment for sessions and runs.
type Template struct {
	TemplateSpec
	UserID         string    `json:"user_id,omitempty"`      // the user who built it
	Digest         string    `json:"digest"`                 // SHA-256 of all inputs except the image, as sha256:…
	ImageDigest    string    `json:"image_digest,omitempty"` // of the image used for the build; "" for host
	SnapshotDigest string    `json:"snapshot_digest"`        // of its files
	Bytes          int64     `json:"bytes"`                  // of its files
	Files          int       `json:"files"`
	Reason         string    `json:"reason"`            // reason of the last build: new, changed, asked, image_changed, image_removed
	BuiltAt        time.Time `json:"built_at,omitzero"` // zero during the first build
	// Building is the current step of a running build: create (its session, with the packages), run[0], run[1] …, or save (its files). It
	// is "" without a build. The other fields are those of the usable template or, during the first build, those of the request.
	Building   string `json:"building,omitempty"`
	BuildRunID string `json:"build_run_id,omitempty"` // run of the build's current command; in the result of a build, of its last
}

// maxTemplateCommands bounds the number of commands of each kind in a template.
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

// checkTemplate checks the template of a request against its other fields.
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

// Templates manages the caller's templates. A session or run refers to one by name ([SessionSpec.Template], [RunSpec.Template]): the
// caller's own template, else a shared one.
type Templates interface {
	// Build makes a template, or rebuilds the template with that name. If nothing has changed, it returns the template as it is. A build is
	// a session of the caller, with a run for each command. A failed build leaves the template unchanged.
	Build(ctx context.Context, spec TemplateSpec) (Template, error)
	// Get returns a template, also during its first build; [CodeNotFound] if there is none.
	Get(ctx context.Context, name string) (Template, error)
	// List returns the caller's templates and the shared ones, by name, including those in their first build.
	List(ctx context.Context) ([]Template, error)
	// Remove removes the caller's template or, for an operator, a shared one. Sessions and runs made from it keep their files.
	Remove(ctx context.Context, name string, shared bool) error
}
