package belljar

import (
	"context"
	"io"
	"iter"
	"math"
)

// Engine answers many callers. Doors are written against it.
type Engine interface {
	// As is the engine as one caller sees it: his own runs and sessions, or everybody's for an admin. What he may not
	// see does not exist for him ([CodeNotFound]).
	As(Caller) Service
}

// Service is everything that one caller can do. The service implements it in process, the client over the network. All
// methods are safe for concurrent use and return an [Error].
type Service interface {
	Runs() Runs
	Artifacts() Artifacts
	Sessions() Sessions
	Node() Node
	Admin() Admin
	Tokens() Tokens
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
	// Frames yields the run's log from seq from (0 and 1 are the first, [Tail] what comes from now on), then goes on as
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
	// End closes the program's input for everybody: it reads end of file.
	End() error
	// Closed is closed when input has ended, whoever ended it; Reason then says why: client, run_ended,
	// stdin_max_frame_bytes, stdin_max_bytes, stdin_bps, stdin_idle_timeout_sec.
	Closed() <-chan struct{}
	Reason() string
	// Close gives up this hold. The program's input stays open.
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
	// Create makes a session and its sandbox, and returns when it can be used.
	Create(ctx context.Context, req SessionRequest) (Session, error)
	// Get returns a session; [CodeNotFound] if there is none. Ended sessions can be asked about for a while.
	Get(ctx context.Context, id string) (Session, error)
	// List returns the caller's sessions, newest first.
	List(ctx context.Context, q SessionQuery) (SessionPage, error)
	// Upload puts files into the session's workspace: all of them or, after an error, none.
	Upload(ctx context.Context, id string, u Upload) (UploadResult, error)
	// Delete ends a session: its runs are cancelled, its sandbox and workspace are gone when it returns. It is idempotent.
	Delete(ctx context.Context, id string) error
}

// Node is what this server can do, and what the caller may.
type Node interface {
	Runtimes(ctx context.Context) (Discovery, error)
	Me(ctx context.Context) (Me, error)
}

// Admin is for operators ([CodeForbidden] for others).
type Admin interface {
	// Runs lists everybody's runs.
	Runs(ctx context.Context, q RunQuery) (RunPage, error)
	Idempotency(ctx context.Context, q KeyQuery) ([]KeyEntry, error)
	// Usage lists the users who use most, by artifact bytes; limit 0 means 50.
	Usage(ctx context.Context, limit int) ([]UserUsage, error)
	// Quota returns the quota in force for a user; SetQuota stores one of his own.
	Quota(ctx context.Context, userID string) (Quota, error)
	SetQuota(ctx context.Context, userID string, q Quota) error
}

// Tokens is for operators: the API keys.
type Tokens interface {
	// Create makes a key and returns it, once, in Token.Secret.
	Create(ctx context.Context, spec TokenSpec) (Token, error)
	List(ctx context.Context) ([]Token, error)
	// Revoke makes a key useless from now on; [CodeNotFound] if there is none.
	Revoke(ctx context.Context, id string) error
}
