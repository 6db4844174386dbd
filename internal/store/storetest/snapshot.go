package storetest

import (
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// openSnapshot returns a snapshot of user, made n seconds after start, with a digest and bytes.
func openSnapshot(user, digest string, stored int64, n int) belljar.Snapshot {
	return belljar.Snapshot{ID: belljar.NewID(), UserID: user, Digest: digest, StoredBytes: stored, CreatedAt: start().Add(time.Duration(n) * time.Second)}
}

func snapshotLife(t *testing.T, s store.Store) {
	ctx, all := t.Context(), s.Snapshots()
	var a belljar.Snapshot
	fill(&a)
	a.UserID, a.Digest, a.StoredBytes, a.CreatedAt, a.ExpiresAt = "ann", "sha256:1", 100, start(), new(start().Add(time.Hour))
	b, c, bens := openSnapshot("ann", "sha256:1", 100, 1), openSnapshot("ann", "sha256:2", 7, 1), openSnapshot("ben", "sha256:1", 100, 3)
	for _, each := range []belljar.Snapshot{a, b, c, bens} {
		ok(t, all.Insert(ctx, each))
	}
	wantErr(t, "again", all.Insert(ctx, a), store.ErrExists)
	got, err := all.Get(ctx, a.ID)
	ok(t, err)
	same(t, "every field", got, a)
	_, err = all.Get(ctx, "' OR 1=1 --")
	wantErr(t, "of no user", err, store.ErrNotFound)
	used := func(user string, want int64) {
		t.Helper()
		same(t, "bytes of "+user, usageOf(t, s, user, start()).ArtifactBytes, want)
	}
	used("ann", 107) // a digest counts once
	used("ben", 100)
	for _, l := range []struct {
		q     belljar.SnapshotQuery
		want  []belljar.Snapshot
		total int
	}{
		{belljar.SnapshotQuery{}, []belljar.Snapshot{bens, c, b, a}, 4},
		{belljar.SnapshotQuery{UserID: "ann", Limit: 2}, []belljar.Snapshot{c, b}, 3},
		{belljar.SnapshotQuery{UserID: "ann", Limit: 2, Offset: 2}, []belljar.Snapshot{a}, 3},
		{belljar.SnapshotQuery{UserID: "' OR 1=1 --"}, nil, 0},
	} {
		page, total, err := all.List(ctx, l.q)
		ok(t, err)
		same(t, "page", page, l.want)
		same(t, "total", total, l.total)
	}
	for at, want := range map[time.Duration]int{time.Hour - time.Second: 0, time.Hour + time.Second: 1} {
		list, err := all.Expired(ctx, start().Add(at), 10)
		ok(t, err)
		same(t, "expired", len(list), want)
	}
	for _, each := range []struct {
		id   string
		last bool
		left int64
	}{{a.ID, false, 107}, {c.ID, true, 100}, {b.ID, true, 0}} {
		last, err := all.Delete(ctx, each.id)
		ok(t, err)
		same(t, "last", last, each.last)
		used("ann", each.left)
		_, err = all.Delete(ctx, each.id)
		wantErr(t, "deleted again", err, store.ErrNotFound)
	}
	for user, want := range map[string]bool{"ann": false, "ben": true} {
		has, err := all.Has(ctx, user, "sha256:1")
		ok(t, err)
		same(t, "has", has, want)
	}
	used("ben", 100)
}
