package belljar

import "time"

// Workspace is the storage of /workspace. The zero value is memory, with the size of resources.workspace_mb. A report has every known field.
type Workspace struct {
	Medium   string `json:"medium,omitempty"`         // memory | disk; "" is memory, or disk with a volume
	MB       int    `json:"mb,omitempty" minimum:"8"` // MiB of a disk; with a volume that exists, 0 or its size
	Volume   string `json:"volume,omitempty"`         // name of the caller's volume to use. A missing one is created with MB
	ReadOnly bool   `json:"read_only,omitempty"`      // mount the volume read-only: other sandboxes can use it at the same time
}

const (
	mediumMemory = "memory"
	mediumDisk   = "disk"
)

// OnDisk reports whether the workspace is on disk.
func (w Workspace) OnDisk() bool { return w.Medium == mediumDisk || w.Volume != "" }

// Disk returns w in the form of a report, with its size; the zero value for a workspace in memory.
func (w Workspace) Disk(mb int) Workspace {
	if !w.OnDisk() {
		return Workspace{}
	}
	w.Medium, w.MB = mediumDisk, mb
	return w
}

const minDiskMB = 8

// Validate checks the workspace as far as that is possible without a server. The error is [CodeInvalidRequest] and names the field.
func (w Workspace) Validate() error {
	switch {
	case w.Medium != "" && w.Medium != mediumMemory && w.Medium != mediumDisk:
		return invalid("workspace.medium", "workspace.medium must be %s or %s, got %.80q", mediumMemory, mediumDisk, w.Medium)
	case w.Volume != "" && w.Medium == mediumMemory:
		return invalid("workspace.volume", "a volume is on disk, and workspace.medium is %s", mediumMemory)
	case w.MB != 0 && !w.OnDisk():
		e := invalid("workspace.mb", "workspace.mb is the size of a disk")
		e.Hint = "set workspace.medium to disk; resources.workspace_mb is the size in memory"
		return e
	case w.OnDisk() && (w.MB < 0 || w.MB > 0 && w.MB < minDiskMB):
		return invalid("workspace.mb", "workspace.mb must be at least %d MiB, got %d", minDiskMB, w.MB)
	case w.OnDisk() && w.Volume == "" && w.MB == 0:
		return invalid("workspace.mb", "a workspace on disk needs a size: workspace.mb")
	case w.ReadOnly && w.Volume == "":
		return invalid("workspace.read_only", "only a volume can be read-only: set workspace.volume")
	case w.ReadOnly && w.MB != 0:
		return invalid("workspace.mb", "workspace.mb makes a volume, which nothing could be written to: leave workspace.read_only out")
	case w.Volume != "":
		return checkKeptName("volume", "workspace.volume", w.Volume)
	}
	return nil
}

// check checks the workspace against the request's resources. filled names a field of the request that puts files into the workspace
// before anything runs, "" for none.
func (w Workspace) check(r Resources, filled string) error {
	if err := w.Validate(); err != nil {
		return err
	}
	switch {
	case w.OnDisk() && r.WorkspaceMB != 0:
		return invalid("resources.workspace_mb", "resources.workspace_mb is the size of a workspace in memory, and workspace.mb that of a disk: leave one out")
	case w.ReadOnly && filled != "":
		return invalid(filled, "%s cannot be put into a workspace that is read-only", filled)
	}
	return nil
}

// checkWorkspace checks the workspace of a run.
func (s *RunSpec) checkWorkspace() error {
	switch {
	case s.Workspace == Workspace{}:
		return nil
	case s.SessionID != "":
		e := invalid("workspace", "workspace cannot be set for a run in a session: the session has the workspace")
		e.Hint = "make the session with it"
		return e
	case s.BuildCache && s.Workspace.Volume != "":
		e := invalid("build_cache", "build_cache and workspace.volume exclude each other: the volume brings files that the request does not name")
		e.Hint = "leave build_cache out"
		return e
	}
	filled := ""
	switch {
	case len(s.Files) > 0:
		filled = "files"
	case s.Git != nil:
		filled = "git"
	case s.Code != "":
		filled = "code"
	}
	return s.Workspace.check(s.Resources, filled)
}

// checkWorkspace checks the workspace of a session.
func (s *SessionSpec) checkWorkspace() error {
	filled := ""
	switch {
	case s.Git != nil:
		filled = "git"
	case s.Snapshot != "":
		filled = "snapshot"
	case s.Template != "":
		filled = "template"
	}
	return s.Workspace.check(s.Resources, filled)
}

const maxKeptName = 64

// checkKeptName checks the name of a volume or template.
func checkKeptName(kind, field, name string) error {
	for i, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', i > 0 && (c == '-' || c == '_' || c == '.'):
		default:
			return invalid(field, "the name of a %s has lower-case letters, digits, and after the first also - _ and . in it, got %.80q", kind, name)
		}
	}
	if name == "" || len(name) > maxKeptName {
		return invalid(field, "the name of a %s has 1 to %d characters", kind, maxKeptName)
	}
	return nil
}

// Volume is a workspace on the server's disk that outlives the sandboxes that use it. Its full size is allocated when it is made, and
// counts towards its owner's artifact_mb.
type Volume struct {
	Name      string    `json:"name"`
	MB        int       `json:"mb"`                   // capacity in MiB
	UserID    string    `json:"user_id,omitempty"`    // its owner
	UsedBy    []string  `json:"used_by,omitempty"`    // sessions and runs that use it now
	WrittenBy string    `json:"written_by,omitempty"` // the entry of UsedBy that may write; "" for none
	CreatedAt time.Time `json:"created_at"`
}

// VolumeSpec is a request for a volume.
type VolumeSpec struct {
	Name string `json:"name" minLength:"1"` // a-z, 0-9, - _ .; at most 64
	MB   int    `json:"mb" minimum:"8"`     // capacity in MiB
}

// Validate checks a request. The error is [CodeInvalidRequest] and names the field.
func (s VolumeSpec) Validate() error {
	if err := checkKeptName("volume", "name", s.Name); err != nil {
		return err
	}
	if s.MB < minDiskMB {
		return invalid("mb", "mb must be at least %d MiB, got %d", minDiskMB, s.MB)
	}
	return nil
}
