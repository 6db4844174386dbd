package belljar

import (
	"context"
	"io"
	"iter"
	"math"
)

// Engine answers many callers. Doors are written against it.
type Engine interface {
	// As returns the engine as one caller sees it: the caller's own runs and sessions, or those of all users for an admin. What
	// callers may not see does not exist for them ([CodeNotFound]).
	As(Caller) Service
}

// Service is everything that one caller can do. The service implements it in process, the client over the network. All
// methods are safe for concurrent use and return an [Error].
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

// Inside is what a caller has in their sessions.
type Inside interface {
	Files() Files
	Terminals() Terminals
	Ports() Ports
	Contexts() Contexts
	Snapshots() Snapshots
	Volumes() Volumes
	Templates() Templates
}

// Volumes is the volumes of a caller: workspaces on disk, which requests name ([Workspace.Volume]).
type Volumes interface {
	// Create makes an empty volume. [CodeConflict] if the caller has one of that name, [CodePolicyDenied] above the size that the operator
	// allows.
	Create(ctx context.Context, spec VolumeSpec) (Volume, error)
	// Get returns a volume; [CodeNotFound] if there is none.
	Get(ctx context.Context, name string) (Volume, error)
	// List returns the caller's volumes by name.
	List(ctx context.Context) ([]Volume, error)
	// Remove removes a volume with its files. [CodeConflict] while a sandbox has it.
	Remove(ctx context.Context, name string) error
}

// Tail as the seq that [Runs.Frames] begins with means: only what comes from now on.
const Tail uint64 = math.MaxUint64

// Runs is how a caller runs things.
type Runs interface {
	// Start accepts a run and returns it as it is then, queued or starting. ctx bounds the acceptance only; the
	// request's streams are read until the run ends. A nil error means that Get and Frames know the run, and that it
	// survives the end of the process if the engine's store is durable.
	Start(ctx context.Context, req RunRequest) (Run, error)
	// Get returns a run; [CodeNotFound] if there is none.
	Get(ctx context.Context, id string) (Run, error)
	// List returns the caller's runs, newest first unless the query says otherwise.
	List(ctx context.Context, q RunQuery) (RunPage, error)
	// Frames yields the run's log from seq from (0 and 1 are the first, [Tail] what comes from now on), then continues as
	// frames come, and returns after the end event or with ctx's error. The first frame's seq is greater than from if
	// frames are gone, as when a log was swept: then only the end event is left.
	Frames(ctx context.Context, id string, from uint64) iter.Seq2[Frame, error]
	// Stdin opens the standard input of an interactive run. [CodeConflict] if it is not interactive or has ended. Many
	// may be open at once; what they write is interleaved by frame.
	Stdin(ctx context.Context, id string) (Stdin, error)
	// Cancel ends a run: TERM, grace, KILL. It returns at once; the outcome is killed, canceled_by_user. Cancelling a
	// run that has ended changes nothing and is no error.
	Cancel(ctx context.Context, id string) error
}

// Stdin is a hold on an interactive run's standard input (spec 1.1). The run's limits on it hold for all holds together.
type Stdin interface {
	// Write sends one frame. It blocks while the program does not read or the rate limit says so. After a limit is
	// broken it fails with [CodeQuotaExceeded] or [CodeTooLarge] and input is closed for good.
	Write(b []byte) (int, error)
	// End closes the program's input for all holds: it reads end of file.
	End() error
	// Closed is closed when input has ended, and Reason then returns why: client, run_ended,
	// stdin_max_frame_bytes, stdin_max_bytes, stdin_bps, stdin_idle_timeout_sec.
	Closed() <-chan struct{}
	Reason() string
	// Close releases this hold. The program's input stays open.
	Close() error
}

// Artifacts is what finished runs left.
type Artifacts interface {
	// List is sorted by path, and empty until the run has ended.
	List(ctx context.Context, runID string) ([]Artifact, error)
	// Open returns one artifact and its bytes from offset on. The caller closes them.
	Open(ctx context.Context, runID, path string, offset int64) (Artifact, io.ReadCloser, error)
}

// Sessions is how a caller keeps a sandbox.
type Sessions interface {
	SessionNetworks
	// Create makes a session and its sandbox, and returns when it can be used. [CodeConflict] if its scope is taken. One that needs an
	// approval is returned at once, by Open too: [Approved] waits for it.
	Create(ctx context.Context, req SessionRequest) (Session, error)
	// Open returns the living session of the request's scope as it is, or else makes one of the request; two at once make
	// one. What was asked of a session that exists already and differs from it is not changed.
	Open(ctx context.Context, req SessionRequest) (opened Session, created bool, err error)
	// CloseAll ends every session of the caller whose scope begins with a prefix, as in [Scope.String]. It returns the ids.
	CloseAll(ctx context.Context, req CloseRequest) ([]string, error)
	// Get returns a session; [CodeNotFound] if there is none. Ended sessions can be asked about for a while.
	Get(ctx context.Context, id string) (Session, error)
	// List returns the caller's sessions, newest first.
	List(ctx context.Context, q SessionQuery) (SessionPage, error)
	// Upload puts files into the session's workspace: all of them or, after an error, none.
	Upload(ctx context.Context, id string, u Upload) (UploadResult, error)
	// Hibernate saves a session ([Session.Hibernated]), and gives its sandbox up until it is used again. [CodeConflict] if something runs
	// in it, unless forced, or if it was given a secret file.
	Hibernate(ctx context.Context, id string, spec HibernateSpec) (Session, error)
	// Delete ends a session: its runs are cancelled, its sandbox and workspace are gone when it returns. It is idempotent.
	Delete(ctx context.Context, id string) error
}

// SessionNetworks is what a caller's sessions may reach.
type SessionNetworks interface {
	// Network returns what a session may reach now.
	Network(ctx context.Context, id string) (NetworkSpec, error)
	// SetNetwork changes it, within the server's rules, and returns what is in force from now on. Connections that the new
	// rules do not allow are cut.
	SetNetwork(ctx context.Context, id string, spec NetworkSpec) (NetworkSpec, error)
}

// Files is the workspaces of a caller's sessions. Paths are relative to the workspace, "x" and "/workspace/x" are the same
// file; one that leaves it, also through a link that a program made meanwhile, is [CodePathEscapes]. What is not there
// is [CodeNotFound]; what is in the way, [CodeConflict]; a full workspace, [CodeDiskFull] with details.scope
// "workspace".
type Files interface {
	FileReader
	FileWriter
}

// FileReader is how a caller looks at workspaces: see [Files].
type FileReader interface {
	// Read opens a file and its bytes from offset on, at most limit of them (0 is all), as many as it has now; fewer come
	// if it shrinks. The caller closes them. FIFOs, sockets and devices are never opened: [CodeConflict].
	Read(ctx context.Context, sessionID, path string, offset, limit int64) (FileEntry, io.ReadCloser, error)
	// Stat describes what is at a path; of a link, itself.
	Stat(ctx context.Context, sessionID, path string) (FileEntry, error)
	// List lists a directory.
	List(ctx context.Context, sessionID string, q FileQuery) (FileList, error)
	// Search looks for files and lines, for at most 5 seconds.
	Search(ctx context.Context, sessionID string, q FileSearch) (FileMatches, error)
	// Archive writes a directory or a file to w, as [UploadTar], [UploadTarGz] or [UploadZip]. Names in it are relative,
	// clean and each there once; links that lead out of it, and special files, are left out. After an error w holds a
	// part of it, and nothing if it could not begin.
	Archive(ctx context.Context, sessionID, path string, format UploadFormat, w io.Writer) error
	// Space is what a workspace holds.
	Space(ctx context.Context, sessionID string) (Space, error)
}

// FileWriter is how a caller changes workspaces: see [Files].
type FileWriter interface {
	// Write writes one file, whole or not at all.
	Write(ctx context.Context, sessionID string, w FileWrite) (FileEntry, error)
	// WriteAll writes many small files, all of them or none: at most 1000 of [MaxBatchBytes] together, and all
	// of them with the same Overwrite.
	WriteAll(ctx context.Context, sessionID string, list []FileWrite) ([]FileEntry, error)
	// Mkdir makes a directory and those above it; one that is there is no error.
	Mkdir(ctx context.Context, sessionID, path string, mode uint32) error
	// Rename moves a file or directory; what is in its new place is replaced only if overwrite is set.
	Rename(ctx context.Context, sessionID, from, to string, overwrite bool) error
	// Delete removes a file, or a directory, with all that is in it if recursive is set. Links are not followed. The
	// workspace itself is refused.
	Delete(ctx context.Context, sessionID, path string, recursive bool) error
}

// Node is what this server can do, and what the caller may.
type Node interface {
	Runtimes(ctx context.Context) (Discovery, error)
	Me(ctx context.Context) (Me, error)
	// CheckNetwork answers what would happen to a URL, and why, without connecting to it. Its host may be resolved.
	CheckNetwork(ctx context.Context, q NetworkQuery) (NetworkCheck, error)
	// NetworkPresets returns what each preset stands for in an image; "" is the host image. Tools of the image and their indexes are
	// asked unless their answers are kept, which takes seconds.
	NetworkPresets(ctx context.Context, image string) ([]NetworkPreset, error)
}

// Admin is for operators ([CodeForbidden] for others).
type Admin interface {
	// Runs lists the runs of all users.
	Runs(ctx context.Context, q RunQuery) (RunPage, error)
	Approvals
	Idempotency(ctx context.Context, q KeyQuery) ([]KeyEntry, error)
	// Usage lists the users who use most, by artifact bytes; limit 0 means 50.
	Usage(ctx context.Context, limit int) ([]UserUsage, error)
	// Quota returns the quota in force for a user; SetQuota stores a quota of their own.
	Quota(ctx context.Context, userID string) (Quota, error)
	SetQuota(ctx context.Context, userID string, q Quota) error

	// CreateToken makes an API key and returns it, once, in Token.Secret.
	CreateToken(ctx context.Context, spec TokenSpec) (Token, error)
	Tokens(ctx context.Context) ([]Token, error)
	// RevokeToken makes a key useless from now on; [CodeNotFound] if there is none.
	RevokeToken(ctx context.Context, id string) error
}
