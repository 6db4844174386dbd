package belljar

import (
	"context"
	"io"
	"time"
	"unicode/utf8"
)

// Snapshot is the saved files of a session's workspace.
type Snapshot struct {
	ID     string `json:"snapshot_id"`
	UserID string `json:"user_id,omitempty"` // its owner
	Name   string `json:"name,omitempty"`
	// Digest is the SHA-256 of its tar archive, as sha256:…. It is the same for the same files, names, modes and times.
	Digest       string `json:"digest"`
	Bytes        int64  `json:"bytes"`         // of the files
	Files        int    `json:"files"`         // with symbolic links
	ArchiveBytes int64  `json:"archive_bytes"` // of the tar archive
	StoredBytes  int64  `json:"stored_bytes"`  // compressed size, which counts towards its owner's artifact_mb once for each digest
	// Kind is workspace: files; live: memory, files and processes; hibernated: the files of the hibernated session with the same id;
	// hibernated_live: its memory, files and processes; template: the files of the template with its name.
	Kind string `json:"kind"`
	// Consistent reports that no program could change a file during the read. It is always true for an imported snapshot.
	Consistent bool       `json:"consistent"`
	SessionID  string     `json:"session_id,omitempty"` // source session; "" for an imported snapshot
	ScopeKey   string     `json:"scope_key,omitempty"`  // of that session
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"` // when it is removed; nil for never
}

// SnapshotSpec is a request for a snapshot.
type SnapshotSpec struct {
	Name string `json:"name,omitempty"` // display name; at most 128 bytes
	// Live also saves the memory and processes of the session's sandbox. [CodeRuntimeUnavailable] on a runtime without support for it, and
	// [CodeConflict] for a session with secrets.
	Live bool `json:"live,omitempty"`
}

// Validate checks a request. The error is [CodeInvalidRequest].
func (s SnapshotSpec) Validate() error {
	if len(s.Name) > maxSnapshotName || !utf8.ValidString(s.Name) {
		return invalid("name", "name must be UTF-8 of at most %d bytes", maxSnapshotName)
	}
	for _, r := range s.Name {
		if r < ' ' || r == 0x7f {
			return invalid("name", "name has a control character in it")
		}
	}
	return nil
}

const maxSnapshotName = 128

// ForkSpec is a request for copies of a session.
type ForkSpec struct {
	Count int  `json:"count,omitempty" minimum:"1" maximum:"32"` // 0 is 1
	Live  bool `json:"live,omitempty"`                           // with memory and processes, as in [SnapshotSpec]
}

// Validate checks a request. The error is [CodeInvalidRequest].
func (s ForkSpec) Validate() error {
	if s.Count < 0 || s.Count > maxForks {
		return invalid("count", "count must be 1 to %d, got %d", maxForks, s.Count)
	}
	return nil
}

const maxForks = 32

// Fork lists the copies of a session.
type Fork struct {
	Sessions []Session `json:"sessions"`
	// Consistent is as in [Snapshot].
	Consistent bool `json:"consistent"`
	// Shell reports that the copies have the directory, variables and functions of the session's shell. It is false if the session has no
	// shell, or its shell was running a command.
	Shell bool `json:"shell"`
	// Omitted names the shell's variables and functions that were left out because they contain the value of a secret.
	Omitted []string `json:"omitted,omitempty"`
}

// SnapshotQuery selects snapshots. The zero value is the caller's first 50.
type SnapshotQuery struct {
	UserID        string // the owner, set by the service
	Limit, Offset int
}

// SnapshotPage is one page of a list.
type SnapshotPage struct {
	Items   []Snapshot `json:"items"`
	Total   int        `json:"total"`
	Limit   int        `json:"limit"`
	Offset  int        `json:"offset"`
	HasMore bool       `json:"has_more"`
}

// Snapshots manages the caller's saved workspaces. A new session can start from a snapshot ([SessionSpec.Snapshot]), and a run can read one
// at /snapshot ([RunSpec.Snapshot]).
type Snapshots interface {
	// Make saves the files of a session's workspace. Meanwhile it pauses the session's programs, for at most 5 seconds, if the runtime
	// supports that.
	Make(ctx context.Context, sessionID string, spec SnapshotSpec) (Snapshot, error)
	// Fork makes sessions with the files, limits and network of a session: all of them or none. They have no secrets, no scope and, unless
	// they are live, no processes.
	Fork(ctx context.Context, sessionID string, spec ForkSpec) (Fork, error)
	// Get returns a snapshot; [CodeNotFound] if there is none.
	Get(ctx context.Context, id string) (Snapshot, error)
	// List returns the caller's snapshots, newest first.
	List(ctx context.Context, q SnapshotQuery) (SnapshotPage, error)
	// Remove removes a snapshot. Sessions and runs that were made from it keep their files.
	Remove(ctx context.Context, id string) error
	// Export writes a snapshot to w as a tar archive. It refuses a live or damaged snapshot before the first byte.
	Export(ctx context.Context, id string, w io.Writer) error
	// Import makes a snapshot from a tar archive, optionally compressed with gzip or zstd.
	Import(ctx context.Context, spec SnapshotSpec, r io.Reader) (Snapshot, error)
}
