// Package store is the contract for the service's records: runs, sessions, approvals, idempotency keys, usage, API keys, secrets and snapshots. The
// logbook and blob packages store the bytes of logs, artifacts and snapshots. Tables and columns are those of docs/compatibility.md#records.
//
// Texts are UTF-8. Times are returned in UTC; a store keeps those of a run, session, key or token to the microsecond. Arguments and results belong
// to the caller: a store keeps a copy.
//
// A write whose context ends before the write has begun stores nothing and returns the context's error. After that the context has no effect: the
// call returns the result of the write.
//
// Implementations are child packages, import only this one and the root package, and pass storetest.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/belljar/belljar"
)

// ErrNotFound means that there is no such row.
var ErrNotFound = errors.New("not in the store")

// ErrCorrupt means that this row cannot be read. Other rows are not affected.
var ErrCorrupt = errors.New("row is corrupt")

// ErrExists means that the id, the scope key of an open session or the hash of a token is already stored.
var ErrExists = errors.New("already in the store")

// ErrEnded means that the run has ended and cannot be updated.
var ErrEnded = errors.New("run has ended")

// ErrInvalid means that an argument cannot be stored or searched for: a bug in the caller.
var ErrInvalid = errors.New("not fit for the store")

// ErrClosed means that the store is closed.
var ErrClosed = errors.New("store is closed")

// ErrFull means that the store's disk is full.
var ErrFull = errors.New("store is full")

// Store stores the records of an installation. All methods are safe for concurrent use. A write that has returned survives the death of the
// process. A durable write also survives a power failure.
type Store interface {
	Records
	// Mode returns the store's name in store_mode: memory, sqlite …
	Mode() string
	// Ping reads and writes to check that the store works, for readiness.
	Ping(ctx context.Context) error
	// Close waits for the calls in progress; later calls fail with ErrClosed. It may be called twice.
	Close() error
}

// Records are what a store holds.
type Records interface {
	Runs() Runs
	Sessions() Sessions
	Keys() Keys
	Users() Users
	Tokens() Tokens
	Secrets() Secrets
	Approvals() Approvals
	Saved
}

// Saved are the records of objects that users store for later requests: snapshots and templates.
type Saved interface {
	Snapshots() Snapshots
	Templates() Templates
}

// Run is the record of a run.
type Run struct {
	belljar.Run // UserID is its owner. List and Sweepable leave Failure out
	// Spec is the request. It is kept until the run ends, so that a queued run survives a restart. List and Sweepable leave it out. It has no
	// secrets: only Secrets has their values, encrypted.
	Spec    *belljar.RunSpec
	Secrets []byte // sealed by the service; nil for none, and once the run has ended
	// Limits are those in force. They are kept as long as Spec, so that they survive a restart with other defaults.
	Limits *belljar.Limits
	// LastSeq is the seq of the end event of its log; 0 until the run has ended.
	LastSeq uint64
	// Artifacts are a JSON array, which [Run.SetArtifacts] encodes and few readers decode: a run may have thousands. They are nil until the run
	// has ended. List and Sweepable leave them out.
	Artifacts json.RawMessage `json:",omitempty"`
	// Log is the whole log of a short run, which Add stores in the row instead of the logbook; read it with [Run.Frames]. List and Sweepable leave
	// it out. Swept removes it.
	Log []byte
	// LogBytes is the size of its log, in the row or in the logbook; 0 until the run has ended.
	LogBytes int64
	// LogGone and ArtifactsGone report that the bytes were swept.
	LogGone, ArtifactsGone bool
	// Image is the image of the run's own sandbox; nil for host, and for a run in a session.
	Image *Image
	// Below is the folder of the initial files of its own sandbox's workspace; "" for none.
	Below string
	// Operator reports that its caller was an operator, until the run ends. Earlier builds have not recorded it.
	Operator bool

	// Charge is what the end of the run adds to its owner's daily usage, by the host's figures. A run with its own sandbox has only its
	// CPUSeconds, 0 if the host has no figure. It is not stored with the run.
	Charge Charge

	Tenant     string // "" for now
	NodeID     string
	WorkerID   string
	LeaseEpoch int64
}

// Charge is a part of a user's daily usage.
type Charge struct {
	CPUSeconds  float64
	EgressBytes int64
}

// Image is an image's settings for the programs in a sandbox. It is stored because, after a restart, the image may have been renamed or removed.
type Image struct {
	Env        []string `json:",omitempty"` // NAME=value
	WorkingDir string   `json:",omitempty"`
	UID, GID   int      `json:",omitempty"` // 0 is Belljar's own user
	GoCache    bool     `json:",omitempty"` // its sandbox has a Go build cache

	Layers map[string]string `json:",omitempty"` // the folders of its sandbox's layers, by their names
}

// Runs are the stored runs.
type Runs interface {
	RunWriter
	RunReader
	RunSweeper
}

// RunWriter stores runs and their changes.
type RunWriter interface {
	// Insert stores a run and its idempotency key, if any, in one transaction. If an entry with that key exists that was
	// created at key.NotBefore or later, Insert stores nothing and returns that entry; it replaces an older entry.
	// ErrExists if the id is taken, ErrInvalid for a run that has ended.
	Insert(ctx context.Context, r Run, key *Key) (prior *Key, err error)
	// Update replaces a run that has not ended, except for its id, owner and creation time. ErrNotFound, ErrEnded;
	// ErrInvalid if r has ended: use Finish.
	Update(ctx context.Context, r Run) error
	// Finish replaces a run with its final state and adds its usage to its owner's on the day it finished, in one durable
	// transaction. Finishing a run again changes nothing. The usage is what [Run.Charged] returns, ResourceUsage.ArtifactBytes
	// unless ArtifactsGone, and LogBytes unless LogGone. ErrNotFound; ErrInvalid if r has not ended.
	Finish(ctx context.Context, r Run) error
	// Add stores a run that has ended, like Insert and Finish together, but is not durable. Adding a run again changes
	// nothing. ErrInvalid if r has not ended.
	Add(ctx context.Context, r Run) error
}

// RunReader finds runs.
type RunReader interface {
	// Get returns a run; ErrNotFound, ErrCorrupt.
	Get(ctx context.Context, id string) (Run, error)
	// List returns one page of the runs that match q and the number of all matches. An empty q.UserID matches every user.
	// Runs with equal times are in the order of insertion, or the reverse for newest first. A run without a start or end
	// time sorts before those that have one. Q ignores the case of ASCII letters. A corrupt row is counted and left out.
	// Limit 0 is the default page; an unknown sort is ErrInvalid.
	List(ctx context.Context, q belljar.RunQuery) (page []Run, total int, err error)
	// Unfinished returns every run that has not ended, oldest first. A corrupt row is left out.
	Unfinished(ctx context.Context) ([]Run, error)
}

// RunSweeper removes old runs and their bytes.
type RunSweeper interface {
	// Sweepable returns up to limit runs that finished before t, oldest first: those that still have bytes if bytes is
	// true, else all. Fewer than limit are the last ones. A corrupt row is left out, and does not count.
	Sweepable(ctx context.Context, t time.Time, bytes bool, limit int) ([]Run, error)
	// Swept marks ended runs as having no bytes left and subtracts the bytes from their owners' usage, once. It ignores
	// unknown ids.
	Swept(ctx context.Context, ids ...string) error
	// Delete deletes runs and subtracts the bytes of those that were not swept from their owners' usage. It ignores
	// unknown ids.
	Delete(ctx context.Context, ids ...string) error
}

// Session is the record of a session.
type Session struct {
	belljar.Session                     // UserID is its owner
	Spec            belljar.SessionSpec // without secrets, as in Run
	Secrets         []byte              // as in Run
	Key             string              // scope key, unique among an owner's open sessions; "" for none
	EndedAt         *time.Time          // nil while it is open
	Image           *Image              // of its sandbox; nil for host
	Below           string              // folder of the workspace's initial files; "" for none
	Operator        bool                // as in Run
	Hibernation     *Hibernation        // the saved state of a hibernated session; for an active one only its contexts, nil without any

	Tenant     string
	NodeID     string
	WorkerID   string
	LeaseEpoch int64
}

// Hibernation is the saved state of a hibernated session, except its files, which are the snapshot with its id.
type Hibernation struct {
	Shell    []byte         `json:",omitempty"` // compressed script that sets its variables and functions; nil without a shell
	Contexts []SavedContext `json:",omitempty"`
}

// SavedContext is a context of a session.
type SavedContext struct {
	Name, Language, Cwd string
	CreatedAt           time.Time
	Since               time.Time `json:",omitzero"`  // earlier code is not replayed
	Lost                bool      `json:",omitempty"` // its variables were lost in a hibernation, and no run has used it since
	Failed              bool      `json:",omitempty"` // a replay failed, and no code has begun an interpreter since
}

// Sessions are the stored sessions.
type Sessions interface {
	// Insert works like Runs.Insert. ErrExists also if another open session of the owner has the scope key.
	Insert(ctx context.Context, s Session, key *Key) (prior *Key, err error)
	// Update replaces a session, ended or not, except for its id, owner and creation time, durably if it hibernates; ErrNotFound. An
	// empty scope key releases the stored one for another session. Update ignores any other change of the scope key.
	Update(ctx context.Context, s Session) error
	// Get returns a session; ErrNotFound, ErrCorrupt.
	Get(ctx context.Context, id string) (Session, error)
	// List returns one page of an owner's sessions, newest first, and the number of all matches. An empty userID matches
	// every user. A corrupt row is counted and left out. A key prefix matches the bytes of the scope key. List leaves Spec out, which may be large.
	List(ctx context.Context, userID string, q belljar.SessionQuery) (page []Session, total int, err error)
	// Unfinished returns every session that has not ended, oldest first. A corrupt row is left out.
	Unfinished(ctx context.Context) ([]Session, error)
	// DeleteEnded deletes the sessions that ended before t and returns their number.
	DeleteEnded(ctx context.Context, t time.Time) (int, error)
}

// Key is an idempotency key in force, identified by Endpoint, UserKey and Key together.
type Key struct {
	Endpoint    string // runs | sessions
	UserKey     string // the user who sent it
	Key         string
	Fingerprint string // SHA-256 of the canonical request
	ObjectID    string // id of the created object
	Response    []byte // the first response, JSON; nil for a session
	CreatedAt   time.Time
	NotBefore   time.Time // for Insert: an entry created before this time has expired. Not stored
}

// Keys are the idempotency keys.
type Keys interface {
	// Get returns a key; ErrNotFound.
	Get(ctx context.Context, endpoint, userKey, key string) (Key, error)
	// List returns one page, newest first. Limit 0 is the default page.
	List(ctx context.Context, q belljar.KeyQuery) ([]belljar.KeyEntry, error)
	// Delete deletes a key if it exists and names objectID.
	Delete(ctx context.Context, endpoint, userKey, key, objectID string) error
	// DeleteBefore deletes the keys that were created before t and returns their number.
	DeleteBefore(ctx context.Context, t time.Time) (int, error)
}

// Users holds the usage and the quotas of users.
type Users interface {
	// Usage returns a user's usage on the day (UTC) of t; zero for an unknown user.
	Usage(ctx context.Context, userID string, t time.Time) (belljar.UserUsage, error)
	// Charge adds to a user's usage on the day (UTC) of t.
	Charge(ctx context.Context, userID string, c Charge, t time.Time) error
	// Top lists users by artifact bytes, most first, with their usage on the day (UTC) of t. Limit 0 is the default page.
	Top(ctx context.Context, limit int, t time.Time) ([]belljar.UserUsage, error)
	// DeleteBefore deletes the usage of the days (UTC) before that of t, and returns the number of rows.
	DeleteBefore(ctx context.Context, t time.Time) (int, error)
	// Kept returns how many bytes of artifacts, logs and records are stored in total, and for how many users. Users who store nothing but
	// records whose logs are swept do not count, unless all do so.
	Kept(ctx context.Context) (bytes int64, users int, err error)
	// Recorded returns the size of the records of what a user has ended, without logs: of all runs and sessions, and of the runs whose log is not
	// swept.
	Recorded(ctx context.Context, userID string) (all, recent int64, err error)
	// Quota returns a user's stored quota; ErrNotFound if there is none.
	Quota(ctx context.Context, userID string) (belljar.Quota, error)
	// SetQuota stores or replaces a user's quota; nil deletes it.
	SetQuota(ctx context.Context, userID string, q *belljar.Quota) error
}

// Approvals are the stored approvals.
type Approvals interface {
	// Put stores an approval, durably, and replaces one with the same id.
	Put(ctx context.Context, a belljar.Approval) error
	// Decide replaces a pending approval with the decided one, durably. ErrNotFound; ErrEnded if it is not pending.
	Decide(ctx context.Context, a belljar.Approval) error
	// Get returns an approval; ErrNotFound, ErrCorrupt.
	Get(ctx context.Context, id string) (belljar.Approval, error)
	// List returns one page of the approvals that match q, newest first, and the number of all matches. A corrupt row is counted and left out.
	List(ctx context.Context, q belljar.ApprovalQuery) (page []belljar.Approval, total int, err error)
	// DeleteBefore deletes the approvals that are not pending and were requested before t, and returns their number.
	DeleteBefore(ctx context.Context, t time.Time) (int, error)
}

// Token is the record of an API key, without the secret.
type Token struct {
	belljar.Token
	Hash string // SHA-256 of the key, lower-case hex
	// Parent names the credential that a sign-in, or a code for one, was made with; "" for an API key. The rows of sign-ins are deleted after
	// ExpiresAt.
	Parent string
}

// Tokens are the stored API keys.
type Tokens interface {
	// Insert stores a key without its Secret; ErrExists if the id or the hash is taken.
	Insert(ctx context.Context, t Token) error
	// ByHash returns the key with that hash, even if it is revoked or expired; ErrNotFound.
	ByHash(ctx context.Context, hash string) (Token, error)
	// List returns all tokens, newest first.
	List(ctx context.Context) ([]Token, error)
	// Used stores when a key was last used; a time before the stored one changes nothing. ErrNotFound.
	Used(ctx context.Context, id string, t time.Time) error
	// Revoke stores when a key was revoked; ErrNotFound. Revoking again changes nothing.
	Revoke(ctx context.Context, id string, t time.Time) error
	// SignIn is Insert for a token with a Parent. It first deletes all such tokens that are revoked or have expired at its CreatedAt. If its user
	// still has most of them, it stores nothing and returns false.
	SignIn(ctx context.Context, t Token, most int) (bool, error)
	// DeleteEnded deletes the tokens that expired, or were revoked, before t and returns their number.
	DeleteEnded(ctx context.Context, t time.Time) (int, error)
	// Spend is Revoke by hash that succeeds only once; ErrNotFound if there is no such token, or it is revoked.
	Spend(ctx context.Context, hash string, t time.Time) error
}

// Secret is a stored secret. The service seals its value.
type Secret struct {
	Owner     string // "" for a shared one
	Name      string
	Sealed    []byte
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Secrets are the secrets that users store, identified by Owner and Name together.
type Secrets interface {
	// Put stores a secret and returns it. An existing secret keeps its CreatedAt.
	Put(ctx context.Context, s Secret) (Secret, error)
	// Get returns a secret; ErrNotFound.
	Get(ctx context.Context, owner, name string) (Secret, error)
	// List returns an owner's secrets, and optionally the shared ones, by name and the owner's first.
	List(ctx context.Context, owner string, shared bool) ([]Secret, error)
	// All returns the secrets of all owners.
	All(ctx context.Context) ([]Secret, error)
	// Delete deletes a secret; ErrNotFound.
	Delete(ctx context.Context, owner, name string) error
}

// Snapshots are the records of saved workspaces.
type Snapshots interface {
	// Insert stores a snapshot, durably, and adds its StoredBytes to its owner's artifacts, unless the owner has another snapshot with its digest.
	// ErrExists if the id is taken.
	Insert(ctx context.Context, s belljar.Snapshot) error
	// Get returns a snapshot; ErrNotFound, ErrCorrupt.
	Get(ctx context.Context, id string) (belljar.Snapshot, error)
	// List returns one page of the snapshots that match q, newest first, and the number of all matches. An empty UserID matches every user. A
	// corrupt row is counted and left out.
	List(ctx context.Context, q belljar.SnapshotQuery) (page []belljar.Snapshot, total int, err error)
	// Has reports whether a user has a snapshot with that digest.
	Has(ctx context.Context, userID, digest string) (bool, error)
	// Delete deletes a snapshot, durably; ErrNotFound. last reports that its owner had no other snapshot with its digest, and that its bytes were
	// subtracted from the owner's artifacts.
	Delete(ctx context.Context, id string) (last bool, err error)
	// Expired returns up to limit snapshots whose ExpiresAt is before t. Fewer than limit are the last ones.
	Expired(ctx context.Context, t time.Time, limit int) ([]belljar.Snapshot, error)
}

// Template is the record of a template.
type Template struct {
	belljar.Template
	Owner  string   // "" for a shared one
	Result string   // id of the snapshot with its files
	Drop   []string // ids of snapshots to remove: those of an unfinished build, or of the previous build
}

// Templates are the records of templates, identified by Owner and Name together.
type Templates interface {
	// Put stores a template, durably, and replaces an existing one.
	Put(ctx context.Context, t Template) error
	// Get returns a template; ErrNotFound, ErrCorrupt.
	Get(ctx context.Context, owner, name string) (Template, error)
	// List returns an owner's templates, and optionally the shared ones, by name and the owner's first. A corrupt row is left out.
	List(ctx context.Context, owner string, shared bool) ([]Template, error)
	// Dropping returns Owner and Name of the templates with a Drop: the rest of a template may be large.
	Dropping(ctx context.Context) ([]Template, error)
	// Delete deletes a template; ErrNotFound.
	Delete(ctx context.Context, owner, name string) error
}
