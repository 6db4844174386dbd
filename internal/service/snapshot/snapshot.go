// Package snapshot makes, stores, restores and copies saved workspaces.
//
// A snapshot is a tar archive of a workspace, identified by its digest. The archive is stored compressed as a blob, once for each owner and
// digest. Its record is in the store. The blob is written before the record and removed after it, so that a crash leaves at most a blob
// without a record, which a sweep removes.
package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/archive"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/keylock"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/shelf"
	"github.com/belljar/belljar/internal/store"
)

// Limits bounds the snapshots of a service.
type Limits struct {
	MB      int           // of the files of one snapshot, MiB; 1024
	Files   int           // files and folders of one snapshot; 100,000
	PerUser int           // of one user; 1000, less than 0 is no bound
	TTL     time.Duration // after which a snapshot is removed; 0 is never
}

// Complete sets zero fields to their defaults.
func (l *Limits) Complete() {
	l.MB, l.Files, l.PerUser = cmp.Or(l.MB, 1024), cmp.Or(l.Files, 100_000), cmp.Or(l.PerUser, 1000)
}

func (l Limits) archive() archive.Limits {
	return archive.Limits{Bytes: int64(l.MB) << 20, Files: l.Files}
}

// Workspace is the workspace of a session, in use until it is released.
type Workspace interface {
	// Box returns the session's sandbox with its agent.
	Box() *box.Box
	// Context ends when the session ends.
	Context() context.Context
	// Session returns the session's current state.
	Session() belljar.Session
	// Execution returns a command in the session without arguments.
	Execution() wire.Exec
	// Shell reserves the session's shell until leave is called. It fails if the shell runs a command.
	Shell() (leave func(), ok bool)
	// Private reports what a copy of the session must not contain: variables that the service has set only for its sandbox, and texts with
	// the value of a secret. delivered reports that the sandbox was given secrets.
	Private() (names map[string]bool, secret func(text []byte) bool, delivered bool)
	KeepAlive()
	Release()
}

// Options configures [Snapshots].
type Options struct {
	Limits
	Store    store.Snapshots
	Blobs    blob.Store
	Accounts *admission.Accounts
	// Shelf stores unpacked snapshots for runs to read; nil refuses such runs.
	Shelf *shelf.Shelf
	// TempDir holds an archive until it is stored; "" is the system's temporary folder.
	TempDir string
	// Acquire counts a use of a session that the caller may see.
	Acquire func(ctx context.Context, caller belljar.Caller, id string) (Workspace, error)
	// Ended returns the error for a session whose context has ended, or whose sandbox has died.
	Ended func(context.Context, belljar.Session) error
	// Copy makes a session with the properties of another one and the files of from, without its secrets and scope. Discard ends it again.
	Copy    func(ctx context.Context, caller belljar.Caller, of string, from *Source) (belljar.Session, error)
	Discard func(id string)
	// Record records an event and fills in its time and component.
	Record func(event.Event)
	// Now returns the time in the precision of records.
	Now func() time.Time
}

// Snapshots manages the snapshots of a service. It is safe for concurrent use.
type Snapshots struct {
	opts  Options
	locks keylock.Locks[[2]string] // by user and digest
	turns turns
}

// New returns the snapshots over these parts.
func New(opts Options) *Snapshots { return &Snapshots{opts: opts} }

// As returns the snapshots as one caller sees them.
func (s *Snapshots) As(caller belljar.Caller) belljar.Snapshots { return view{s, caller} }

// view is the snapshots as one caller sees them.
type view struct {
	snapshots *Snapshots
	caller    belljar.Caller
}

var _ belljar.Snapshots = view{}

// Find returns a snapshot that the caller may see.
func (s *Snapshots) Find(ctx context.Context, caller belljar.Caller, id string) (belljar.Snapshot, error) {
	x, err := s.opts.Store.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && !caller.Sees(x.UserID):
		return belljar.Snapshot{}, notFound(id)
	case err != nil:
		return belljar.Snapshot{}, fault.Record("read the record of snapshot "+id, err)
	}
	return x, nil
}

func notFound(id string) error {
	return &belljar.Error{
		Code: belljar.CodeNotFound, Message: fmt.Sprintf("snapshot %.80q does not exist", id), Details: map[string]any{"snapshot_id": id},
	}
}

// Get returns a snapshot.
func (v view) Get(ctx context.Context, id string) (belljar.Snapshot, error) {
	return v.snapshots.Find(ctx, v.caller, id)
}

// List returns the caller's own snapshots.
func (v view) List(ctx context.Context, q belljar.SnapshotQuery) (belljar.SnapshotPage, error) {
	page := belljar.SnapshotPage{Items: []belljar.Snapshot{}}
	q.UserID = v.caller.ID
	q.Limit, q.Offset = store.Page(q.Limit, q.Offset)
	if q.Limit > belljar.MaxPage {
		return page, fault.Refuse("limit", q.Limit, fmt.Sprintf("limit is at most %d", belljar.MaxPage))
	}
	list, total, err := v.snapshots.opts.Store.List(ctx, q)
	if err != nil {
		return page, fault.Record("list snapshots", err)
	}
	page.Items = append(page.Items, list...)
	page.Total, page.Limit, page.Offset, page.HasMore = total, q.Limit, q.Offset, q.Offset+len(list) < total
	return page, nil
}

// Remove removes a snapshot.
func (v view) Remove(ctx context.Context, id string) error {
	x, err := v.snapshots.Find(ctx, v.caller, id)
	if err != nil {
		return err
	}
	switch x.Kind {
	case kindHibernated, kindAsleep:
		return &belljar.Error{
			Code: belljar.CodeConflict, Message: fmt.Sprintf("snapshot %s is of a hibernated session", id),
			Details: map[string]any{"snapshot_id": id, "session_id": x.SessionID}, Hint: "it is removed when the session wakes or ends",
		}
	case kindTemplate:
		return &belljar.Error{
			Code: belljar.CodeConflict, Message: fmt.Sprintf("snapshot %s is files of template %q", id, x.Name),
			Details: map[string]any{"snapshot_id": id, "template": x.Name}, Hint: "remove the template instead: belljar template rm",
		}
	}
	if err := v.snapshots.remove(ctx, x); err != nil {
		return err
	}
	v.snapshots.record(event.SnapshotRemoved, v.caller, x, "")
	return nil
}

// remove removes a snapshot. If it is the owner's last one with its bytes, it also removes these and their unpacked files. A missing
// snapshot is no error.
func (s *Snapshots) remove(ctx context.Context, x belljar.Snapshot) error {
	defer s.lock(x.UserID, x.Digest)()
	last, err := s.opts.Store.Delete(context.WithoutCancel(ctx), x.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return fault.Record("remove snapshot "+x.ID, err)
	case !last:
		return nil
	}
	s.opts.Accounts.ArtifactsAdded(x.UserID, -x.StoredBytes)
	defer s.unpackedOf(x.Digest, (*shelf.Shelf).Forget) // without the bytes, they cannot be unpacked again
	if err := s.opts.Blobs.Delete(context.WithoutCancel(ctx), x.UserID, blobID(x.Digest)); err != nil {
		return fault.Record("remove the bytes of snapshot "+x.ID, err)
	}
	return nil
}

// record records an event of a snapshot.
func (s *Snapshots) record(name string, caller belljar.Caller, x belljar.Snapshot, kind string) {
	s.opts.Record(event.Event{
		Name: name, Caller: caller, Kind: kind, Count: x.Bytes, Files: int64(x.Files),
		Detail: map[string]string{"snapshot_id": x.ID, "digest": x.Digest, "session_id": x.SessionID},
	})
}
