package apitest

import (
	"context"
	"io"

	"github.com/belljar/belljar"
)

func snapshot() belljar.Snapshot {
	return belljar.Snapshot{ID: ID, UserID: "alice", Name: "before", Digest: "sha256:0", Kind: "workspace", Consistent: true, CreatedAt: then()}
}

func (snapshots) Make(_ context.Context, session string, spec belljar.SnapshotSpec) (belljar.Snapshot, error) {
	if err := spec.Validate(); err != nil {
		return belljar.Snapshot{}, err
	}
	return snapshot(), known(session)
}

func (snapshots) Fork(_ context.Context, id string, spec belljar.ForkSpec) (belljar.Fork, error) {
	if err := spec.Validate(); err != nil {
		return belljar.Fork{}, err
	}
	return belljar.Fork{Sessions: []belljar.Session{session()}, Consistent: true}, known(id)
}

func (snapshots) Get(_ context.Context, id string) (belljar.Snapshot, error) {
	return snapshot(), known(id)
}

func (snapshots) List(_ context.Context, q belljar.SnapshotQuery) (belljar.SnapshotPage, error) {
	return belljar.SnapshotPage{Items: []belljar.Snapshot{snapshot()}, Total: 1, Limit: q.Limit, Offset: q.Offset}, nil
}

func (snapshots) Remove(_ context.Context, id string) error { return known(id) }

func (snapshots) Export(_ context.Context, id string, w io.Writer) error {
	if err := known(id); err != nil {
		return err
	}
	_, err := io.WriteString(w, "archive")
	return err
}

func (snapshots) Import(_ context.Context, spec belljar.SnapshotSpec, r io.Reader) (belljar.Snapshot, error) {
	if err := spec.Validate(); err != nil {
		return belljar.Snapshot{}, err
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return belljar.Snapshot{}, err
	}
	return snapshot(), nil
}
