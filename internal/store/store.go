// Package store is the contract for what the service remembers: runs, sessions, idempotency keys, usage and API keys.
// The bytes of logs and artifacts are elsewhere (logbook, blob). Tables and columns are those of docs/compatibility.md#records.
//
// Texts are UTF-8. Times come back in UTC, those of a run, session, key or token to the microsecond. What is passed in
// and what is returned belongs to the caller: a store keeps a copy.
//
// A context that has ended before a write was begun stores nothing and answers with the context's error. One that ends
// while a write waits for its turn may answer so although the write still happens: read to find out.
//
// Implementations live in child packages, import only this one and the root package, and pass storetest.
package store

import (
	"context"
	"errors"
	"time"

	"github.com/belljar/belljar"
)

// ErrNotFound says that there is no such row.
var ErrNotFound = errors.New("not in the store")

// ErrCorrupt says that a row cannot be read. Other rows can.
var ErrCorrupt = errors.New("row is corrupt")

// ErrExists says that what was to be made is there already: the id, a living session's scope key, a token's hash.
var ErrExists = errors.New("already in the store")

// ErrEnded says that a run has ended, and its record is closed.
var ErrEnded = errors.New("run has ended")

// ErrInvalid says that what was passed cannot be stored or looked for: a fault of the program that calls.
var ErrInvalid = errors.New("not fit for the store")

// ErrClosed says that the store was closed.
var ErrClosed = errors.New("store is closed")

// ErrFull says that the disk under the store is full.
var ErrFull = errors.New("store is full")

// Store is the memory of an installation. All methods are safe for concurrent use. What a method has stored when it
// returns survives the death of the process; what is said to be durable survives the loss of power too.
type Store interface {
	// Mode is its name in store_mode: memory, sqlite …
	Mode() string
	Runs() Runs
	Sessions() Sessions
	Keys() Keys
	Users() Users
	Tokens() Tokens
	// Ping tells whether the store works, by reading and writing; for readiness.
	Ping(ctx context.Context) error
	// Close waits for what is under way; what is called later fails with ErrClosed. It may be called twice.
	Close() error
}

// Run is a run on record.
type Run struct {
	belljar.Run // UserID is its owner
	// Spec is what was asked. It is kept until the run ends, so that one in the queue can still run after a restart.
	// List and Sweepable leave it out.
	Spec *belljar.RunSpec
	// LastSeq is the seq of the end event of its log; 0 until the run has ended.
	LastSeq uint64
	// Artifacts are what it left; nil until the run has ended. List and Sweepable leave them out.
	Artifacts []belljar.Artifact
	// Log is the whole log of a run that was added with it, as [Run.Frames] reads it: the logbook has none. List and
	// Sweepable leave it out, and it goes when the bytes are swept.
	Log []byte
	// LogBytes is what its log takes up, wherever that is; 0 until the run has ended.
	LogBytes int64
	// LogGone and ArtifactsGone say that the bytes were swept.
	LogGone, ArtifactsGone bool
	// Image is that of its own sandbox; nil for host, and for a run in a session.
	Image *Image

	Tenant     string // "" for now
	NodeID     string
	WorkerID   string
	LeaseEpoch int64
}

// Image is what an image says of the programs in a sandbox. The next process has to know even if the image has another name
// by then, or none.
type Image struct {
	Env        []string `json:",omitempty"` // NAME=value
	WorkingDir string   `json:",omitempty"`
	UID, GID   int      `json:",omitempty"` // 0 is Belljar's own user
	GoCache    bool     `json:",omitempty"` // its sandbox has a Go build cache
}

// Runs are the runs on record.
type Runs interface {
	RunWriter
	RunReader
	RunSweeper
}

// RunWriter records what becomes of runs.
type RunWriter interface {
	// Insert puts a run on record, with its idempotency key if there is one: both or neither. If the key is taken, and
	// was made at key.NotBefore or after, nothing is stored and the prior entry is returned; an older one is replaced.
	// ErrExists if the id is taken, ErrInvalid for a run that has ended.
	Insert(ctx context.Context, r Run, key *Key) (prior *Key, err error)
	// Update replaces a run that has not ended, but for its id, owner and creation, which never change. ErrNotFound,
	// ErrEnded; ErrInvalid if r itself has ended, which is for Finish.
	Update(ctx context.Context, r Run) error
	// Finish replaces a run by its last state, adds what it used to its owner's usage on the day it finished, and is
	// durable: all of it or nothing. Finishing a run again changes nothing. Used are ResourceUsage.CPUTimeSec,
	// ResourceUsage.ArtifactBytes unless ArtifactsGone, and LogBytes unless LogGone. ErrNotFound; ErrInvalid if r has not ended.
	Finish(ctx context.Context, r Run) error
	// Add puts a run on record that has ended, as Insert and Finish together, but survives the death of the process only.
	// Adding a run again changes nothing. ErrInvalid if r has not ended.
	Add(ctx context.Context, r Run) error
}

// RunReader finds runs.
type RunReader interface {
	// Get returns a run; ErrNotFound, ErrCorrupt.
	Get(ctx context.Context, id string) (Run, error)
	// List returns one page of the runs selected (q.UserID "" is everybody's) and how many there are in all. Those of
	// one instant are in the order they came (newest first: the other way round); one that has not started or finished
	// sorts before those that have. Q ignores the case of ASCII letters. A corrupt row is counted and left out. Limit
	// and Sort have been checked: limit 0 is the default page, an unknown sort is ErrInvalid.
	List(ctx context.Context, q belljar.RunQuery) (page []Run, total int, err error)
	// Unfinished returns every run that has not ended, oldest first. A corrupt row is left out.
	Unfinished(ctx context.Context) ([]Run, error)
}

// RunSweeper removes old runs and their bytes.
type RunSweeper interface {
	// Sweepable returns up to limit runs that finished before t and still have bytes (bytes true) or a row at all
	// (bytes false), oldest first. A corrupt row is left out.
	Sweepable(ctx context.Context, t time.Time, bytes bool, limit int) ([]Run, error)
	// Swept marks runs that have ended as having no bytes left and takes those off their owners' usage, once.
	// Unknown ids are passed over.
	Swept(ctx context.Context, ids ...string) error
	// Delete takes runs off the record, and off their owners' usage the bytes of those that were not swept. Unknown
	// ids are passed over.
	Delete(ctx context.Context, ids ...string) error
}

// Session is a session on record.
type Session struct {
	belljar.Session // UserID is its owner
	Spec            belljar.SessionSpec
	Key             string     // scope key, unique among an owner's living sessions; "" for none
	EndedAt         *time.Time // nil while it lives
	Image           *Image     // of its sandbox; nil for host

	Tenant     string
	NodeID     string
	WorkerID   string
	LeaseEpoch int64
}

// Sessions are the sessions on record.
type Sessions interface {
	// Insert is as Runs.Insert. ErrExists also if a living session of the owner has the scope key.
	Insert(ctx context.Context, s Session, key *Key) (prior *Key, err error)
	// Update replaces a session, ended or not, but for its id, owner and creation; ErrNotFound. A scope key can be given
	// up (""), and is then free for another; any other than the one on record is left out of account.
	Update(ctx context.Context, s Session) error
	// Get returns a session; ErrNotFound, ErrCorrupt.
	Get(ctx context.Context, id string) (Session, error)
	// List returns one page of an owner's sessions (userID "" is everybody's), newest first, and how many there are. A
	// corrupt row is counted and left out. A key prefix selects by scope key, byte by byte.
	List(ctx context.Context, userID string, q belljar.SessionQuery) (page []Session, total int, err error)
	// Unfinished returns every session that has not ended, oldest first. A corrupt row is left out.
	Unfinished(ctx context.Context) ([]Session, error)
	// DeleteEnded takes the sessions that ended before t off the record.
	DeleteEnded(ctx context.Context, t time.Time) (int, error)
}

// Key is an idempotency key in force. Endpoint, UserKey and Key together name it.
type Key struct {
	Endpoint    string // runs | sessions
	UserKey     string // who sent it
	Key         string
	Fingerprint string // SHA-256 of the canonical request
	ObjectID    string // what the request made
	Response    []byte // the first answer, JSON
	CreatedAt   time.Time
	NotBefore   time.Time // for Insert: a prior entry from before this has expired. Not stored
}

// Keys are the idempotency keys.
type Keys interface {
	// Get returns a key; ErrNotFound.
	Get(ctx context.Context, endpoint, userKey, key string) (Key, error)
	// List returns one page, the newest first. Limit 0 is the default page.
	List(ctx context.Context, q belljar.KeyQuery) ([]belljar.KeyEntry, error)
	// Delete takes one key off the record, if it names objectID.
	// There may be none.
	Delete(ctx context.Context, endpoint, userKey, key, objectID string) error
	// DeleteBefore takes off what was made before t and tells how many that were.
	DeleteBefore(ctx context.Context, t time.Time) (int, error)
}

// Users is what users use and may use.
type Users interface {
	// Usage is what a user has used on the day (UTC) of t; zero for one that was never seen.
	Usage(ctx context.Context, userID string, t time.Time) (belljar.UserUsage, error)
	// Top lists users by artifact bytes, most first, with what they used on the day (UTC) of t. Limit 0 is the default
	// page.
	Top(ctx context.Context, limit int, t time.Time) ([]belljar.UserUsage, error)
	// Kept is how many bytes of artifacts and logs are kept in all, and how many users keep any.
	Kept(ctx context.Context) (bytes int64, users int, err error)
	// Quota is what was stored for a user; ErrNotFound if nothing was.
	Quota(ctx context.Context, userID string) (belljar.Quota, error)
	// SetQuota stores a user's quota in place of an earlier one.
	SetQuota(ctx context.Context, userID string, q belljar.Quota) error
}

// Token is an API key on record: everything but itself.
type Token struct {
	belljar.Token
	Hash string // SHA-256 of the key, lower-case hex
}

// Tokens are the API keys on record.
type Tokens interface {
	// Insert puts a key on record, without its Secret; ErrExists if the id or the hash is taken.
	Insert(ctx context.Context, t Token) error
	// ByHash returns the key with that hash, revoked and expired ones too; ErrNotFound.
	ByHash(ctx context.Context, hash string) (Token, error)
	// List returns all, newest first.
	List(ctx context.Context) ([]Token, error)
	// Used notes when a key was used last; an earlier time than the noted one changes nothing. ErrNotFound.
	Used(ctx context.Context, id string, t time.Time) error
	// Revoke notes when a key was revoked; ErrNotFound. Revoking again changes nothing.
	Revoke(ctx context.Context, id string, t time.Time) error
}
