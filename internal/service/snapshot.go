package service

import (
	"context"
	"io"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/session"
	"github.com/belljar/belljar/internal/service/snapshot"
	"github.com/belljar/belljar/internal/shelf"
)

// SnapshotOptions bounds snapshots, and has the shelf for those that runs read.
type SnapshotOptions struct {
	SnapshotLimits
	Shelf *shelf.Shelf // for unpacked snapshots; nil refuses runs with one
}

// SnapshotLimits bounds the snapshots of a service.
type SnapshotLimits = snapshot.Limits

func newSnapshots(s *Service) *snapshot.Snapshots {
	o := s.opts
	return snapshot.New(snapshot.Options{
		Limits: o.Snapshots.SnapshotLimits, Store: o.Store.Snapshots(), Blobs: o.Blobs, Accounts: s.accounts, Shelf: o.Snapshots.Shelf, TempDir: o.TempDir,
		Ended: session.Ended, Record: s.emit, Now: s.now,
		Acquire: func(ctx context.Context, caller belljar.Caller, id string) (snapshot.Workspace, error) {
			return useInside(ctx, s, caller, id)
		},
		Copy: func(ctx context.Context, caller belljar.Caller, of string, from *snapshot.Source) (belljar.Session, error) {
			return copySession(ctx, s, caller, of, from)
		},
		Discard: func(id string) {
			if x := s.sessions.Get(id); x != nil {
				session.Discard(x)
			}
		},
	})
}

// copySession makes a session with the properties of another one and different files.
func copySession(ctx context.Context, s *Service, caller belljar.Caller, of string, from *snapshot.Source) (belljar.Session, error) {
	x, err := s.livingSession(caller, of)
	if err != nil {
		return belljar.Session{}, err
	}
	return session.Copy(ctx, x, caller, from)
}

// snapshots is the snapshots as one caller sees them. It records refusals in the audit trail.
type snapshots struct {
	belljar.Snapshots
	view
}

// Make saves the files of a session's workspace.
func (v snapshots) Make(ctx context.Context, id string, spec belljar.SnapshotSpec) (belljar.Snapshot, error) {
	made, err := v.Snapshots.Make(ctx, id, spec)
	return orRefused(v.view, "make a snapshot", made, err)
}

// Fork makes copies of a session.
func (v snapshots) Fork(ctx context.Context, id string, spec belljar.ForkSpec) (belljar.Fork, error) {
	made, err := v.Snapshots.Fork(ctx, id, spec)
	return orRefused(v.view, "copy a session", made, err)
}

// Import makes a snapshot from an archive.
func (v snapshots) Import(ctx context.Context, spec belljar.SnapshotSpec, r io.Reader) (belljar.Snapshot, error) {
	made, err := v.Snapshots.Import(ctx, spec, r)
	return orRefused(v.view, "import a snapshot", made, err)
}
