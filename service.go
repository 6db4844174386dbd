package belljar

import (
	"context"
	"io"
	"iter"
	"math"
)

// Engine serves many callers. The APIs are written against it.
type Engine interface {
	// As returns the engine as one caller sees it: with the caller's own runs and sessions, or those of all users for an operator. Objects
	// that a caller may not see do not exist for them ([CodeNotFound]).
	As(Caller) Service
}

// Service is everything that one caller can do. The service implements it in process, the client over the network. All methods are safe
// for concurrent use and return an [Error].
type Service interface {
	Runs() Runs
	Artifacts() Artifacts
	Sessions() Sessions
	Inside
	Secrets() Secrets
	Images() Images
	Usage() Usages
	Node() Node
	Admin() Admin
}

// Inside groups the interfaces to the inside of a caller's sessions.
type Inside interface {
	Files() Files
	Terminals() Terminals
	Ports() Ports
	Contexts() Contexts
	Snapshots() Snapshots
	Volumes() Volumes
	Templates() Templates
}

// Volumes manages the caller's volumes: workspaces on disk, which requests refer to with [Workspace.Volume].
type Volumes interface {
	// Create makes an empty volume. [CodeConflict] if the caller has a volume with that name, [CodePolicyDenied] above the operator's
	// maximum size.
	Create(ctx context.Context, spec VolumeSpec) (Volume, error)
	// Get returns a volume; [CodeNotFound] if there is none.
	Get(ctx context.Context, name string) (Volume, error)
	// List returns the caller's volumes by name.
	List(ctx context.Context) ([]Volume, error)
	// Remove removes a volume with its files. [CodeConflict] while a sandbox uses it.
	Remove(ctx context.Context, name string) error
}

// Tail, as the first seq of [Runs.Frames], selects only future frames.
const Tail uint64 = math.MaxUint64

// Runs starts and observes the caller's runs.
type Runs interface {
	// Start accepts a run and returns it in its current phase, queued or starting. ctx bounds only the acceptance; the request's streams
	// are read until the run ends. After a nil error Get and Frames find the run, and it survives the end of the process if the engine's
	// store is durable.
	Start(ctx context.Context, req RunRequest) (Run, error)
	// Get returns a run; [CodeNotFound] if there is none.
	Get(ctx context.Context, id string) (Run, error)
	// List returns the caller's runs, newest first unless the query says otherwise.
	List(ctx context.Context, q RunQuery) (RunPage, error)
	// Frames yields the run's log from seq from (0 and 1 are the first, [Tail] is only future frames). It then follows the log, and
	// returns after the end event or with ctx's error. The first frame's seq is greater than from if frames are missing. After a log was
	// swept, only the end event is left, as for a log that ends before from; from the seq after the end event there is nothing.
	Frames(ctx context.Context, id string, from uint64) iter.Seq2[Frame, error]
	// Stdin opens the standard input of an interactive run. [CodeConflict] if it is not interactive or has ended. Several may be open at
	// the same time; their frames are interleaved.
	Stdin(ctx context.Context, id string) (Stdin, error)
	// Cancel ends a run: TERM, grace, KILL. It returns immediately; the outcome is killed, canceled_by_user. Cancelling a run that has
	// ended has no effect and is not an error.
	Cancel(ctx context.Context, id string) error
}

// Stdin is a handle on an interactive run's standard input (spec 1.1). The run's limits on it apply to all handles together.
type Stdin interface {
	// Write sends one frame. It blocks while the program does not read or the rate limit is reached. After a limit is exceeded, it fails
	// with [CodeQuotaExceeded] or [CodeTooLarge] and input is closed permanently.
	Write(b []byte) (int, error)
	// End closes the program's input for all handles: the program reads end of file.
	End() error
	// Closed returns a channel that is closed when input has ended. Reason then returns why: client, run_ended, stdin_max_frame_bytes,
	// stdin_max_bytes, stdin_bps, stdin_idle_timeout_sec, connection_lost.
	Closed() <-chan struct{}
	Reason() string
	// Close releases this handle. The program's input stays open.
	Close() error
}

// Artifacts reads the artifacts of finished runs.
type Artifacts interface {
	// List returns a run's artifacts, sorted by path. It is empty until the run has ended.
	List(ctx context.Context, runID string) ([]Artifact, error)
	// Open returns one artifact and its bytes from offset on. The caller closes the reader.
	Open(ctx context.Context, runID, path string, offset int64) (Artifact, io.ReadCloser, error)
}

// Sessions manages the caller's sessions.
type Sessions interface {
	SessionNetworks
	// Create makes a session and its sandbox, and returns when it is usable. [CodeConflict] if its scope is taken. A session that needs an
	// approval is returned immediately, also by Open: [Approved] waits for it.
	Create(ctx context.Context, req SessionRequest) (Session, error)
	// Open returns the live session of the request's scope, or makes one. Concurrent calls make only one. If the session already exists,
	// the request does not change it, even where the two differ.
	Open(ctx context.Context, req SessionRequest) (opened Session, created bool, err error)
	// CloseAll ends every session of the caller whose scope, in the form of [Scope.String], has a prefix. It returns their ids.
	CloseAll(ctx context.Context, req CloseRequest) ([]string, error)
	// Get returns a session; [CodeNotFound] if there is none. Ended sessions stay available for a while.
	Get(ctx context.Context, id string) (Session, error)
	// List returns the caller's sessions, newest first.
	List(ctx context.Context, q SessionQuery) (SessionPage, error)
	// Upload puts files into the session's workspace: all of them or, after an error, none.
	Upload(ctx context.Context, id string, u Upload) (UploadResult, error)
	// Hibernate saves a session ([Session.Hibernated]), and releases its sandbox until the next use. [CodeConflict] if the session has a
	// secret file, or if something runs in it, unless forced.
	Hibernate(ctx context.Context, id string, spec HibernateSpec) (Session, error)
	// Delete ends a session. When it returns, the runs are cancelled and the sandbox and workspace are removed. It is idempotent.
	Delete(ctx context.Context, id string) error
}

// SessionNetworks manages the network policies of the caller's sessions.
type SessionNetworks interface {
	// Network returns a session's current network policy.
	Network(ctx context.Context, id string) (NetworkSpec, error)
	// SetNetwork changes a session's policy, within the server's rules, and returns the policy now in force. Connections that the new
	// policy denies are cut.
	SetNetwork(ctx context.Context, id string, spec NetworkSpec) (NetworkSpec, error)
}

// Files manages the workspaces of a caller's sessions. Paths are relative to the workspace; "x" and "/workspace/x" are the same file. A
// path that leaves the workspace is [CodePathEscapes], even through a link that a program makes concurrently. A missing path is
// [CodeNotFound]; a conflicting entry, [CodeConflict]; a full workspace, [CodeDiskFull] with details.scope "workspace".
type Files interface {
	FileReader
	FileWriter
}

// FileReader reads workspaces: see [Files].
type FileReader interface {
	// Read opens a file and at most limit of its bytes (0 is all) from offset on, by its current size. It returns fewer bytes if the file
	// shrinks. The caller closes the reader. FIFOs, sockets and devices are never opened: [CodeConflict].
	Read(ctx context.Context, sessionID, path string, offset, limit int64) (FileEntry, io.ReadCloser, error)
	// Stat describes the entry at a path. It does not follow a link.
	Stat(ctx context.Context, sessionID, path string) (FileEntry, error)
	// List lists a directory.
	List(ctx context.Context, sessionID string, q FileQuery) (FileList, error)
	// Search searches files and lines, for at most 5 seconds.
	Search(ctx context.Context, sessionID string, q FileSearch) (FileMatches, error)
	// Archive writes a directory or a file to w, as [UploadTar], [UploadTarGz] or [UploadZip]. Names in it are relative, clean and unique.
	// It omits links that lead out of it, and special files. After an error w has a partial archive, or nothing if the archive could not
	// begin.
	Archive(ctx context.Context, sessionID, path string, format UploadFormat, w io.Writer) error
	// Space returns the usage of a workspace.
	Space(ctx context.Context, sessionID string) (Space, error)
}

// FileWriter changes workspaces: see [Files].
type FileWriter interface {
	// Write writes one file atomically.
	Write(ctx context.Context, sessionID string, w FileWrite) (FileEntry, error)
	// WriteAll writes many small files, all of them or none: at most 1000 files of [MaxBatchBytes] together, all with the same Overwrite.
	WriteAll(ctx context.Context, sessionID string, list []FileWrite) ([]FileEntry, error)
	// Mkdir makes a directory and its parents. An existing directory is no error.
	Mkdir(ctx context.Context, sessionID, path string, mode uint32) error
	// Rename moves a file or directory. It replaces an existing target only if overwrite is set.
	Rename(ctx context.Context, sessionID, from, to string, overwrite bool) error
	// Delete removes a file or directory, with its content if recursive is set. It does not follow links, and refuses the workspace
	// itself.
	Delete(ctx context.Context, sessionID, path string, recursive bool) error
}

// Node describes the server and the caller's permissions.
type Node interface {
	Runtimes(ctx context.Context) (Discovery, error)
	Me(ctx context.Context) (Me, error)
	// CheckNetwork reports how a URL would be handled, and why, without connecting to it. It may resolve the host.
	CheckNetwork(ctx context.Context, q NetworkQuery) (NetworkCheck, error)
	// NetworkPresets returns the expansion of each preset in an image; "" is the host image. Unless the result is cached, it queries the
	// image's tools and their indexes, which takes seconds.
	NetworkPresets(ctx context.Context, image string) ([]NetworkPreset, error)
}

// Admin is for operators ([CodeForbidden] for others).
type Admin interface {
	// Runs lists the runs of all users.
	Runs(ctx context.Context, q RunQuery) (RunPage, error)
	Approvals
	Idempotency(ctx context.Context, q KeyQuery) ([]KeyEntry, error)
	// Usage lists the users with the most artifact bytes; limit 0 means 50.
	Usage(ctx context.Context, limit int) ([]UserUsage, error)
	// Quota returns the quota in force for a user; SetQuota stores a quota of their own, nil for the default again.
	Quota(ctx context.Context, userID string) (Quota, error)
	SetQuota(ctx context.Context, userID string, q *Quota) error

	// CreateToken makes an API key and returns it with Token.Secret, which is not available again.
	CreateToken(ctx context.Context, spec TokenSpec) (Token, error)
	Tokens(ctx context.Context) ([]Token, error)
	// RevokeToken invalidates a key immediately; [CodeNotFound] if there is none.
	RevokeToken(ctx context.Context, id string) error
}
