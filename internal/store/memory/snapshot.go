package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

type snapshots struct{ s *Store }

// Insert stores a snapshot.
func (q snapshots) Insert(ctx context.Context, x belljar.Snapshot) error {
	x.CreatedAt, x.ExpiresAt = instant(x.CreatedAt), instantOrNil(x.ExpiresAt)
	return q.s.write(ctx, func() error {
		if q.s.saved[x.ID] != nil {
			return fmt.Errorf("snapshot %s: %w", x.ID, store.ErrExists)
		}
		if !q.has(x.UserID, x.Digest) {
			q.s.bytes[x.UserID] += x.StoredBytes
		}
		q.s.saved[x.ID] = &entry[belljar.Snapshot]{q.s.next(), x}
		return nil
	})
}

func (q snapshots) has(user, digest string) bool {
	for _, e := range q.s.saved {
		if e.value.UserID == user && e.value.Digest == digest {
			return true
		}
	}
	return false
}

// Get returns a snapshot.
func (q snapshots) Get(ctx context.Context, id string) (got belljar.Snapshot, err error) {
	err = q.s.read(ctx, func() error {
		e := q.s.saved[id]
		if e == nil {
			return fmt.Errorf("snapshot %s: %w", id, store.ErrNotFound)
		}
		got, err = deepCopy(e.value)
		return err
	})
	return got, err
}

// List returns one page, newest first.
func (q snapshots) List(ctx context.Context, query belljar.SnapshotQuery) (page []belljar.Snapshot, total int, err error) {
	err = q.s.read(ctx, func() error {
		var all []*entry[belljar.Snapshot]
		for _, e := range q.s.saved {
			if query.UserID == "" || e.value.UserID == query.UserID {
				all = append(all, e)
			}
		}
		sortEntries(all, true, func(x *belljar.Snapshot) time.Time { return x.CreatedAt })
		total = len(all)
		page, err = copyPage(pageOf(all, query.Limit, query.Offset), nil)
		return err
	})
	return page, total, err
}

// Has reports whether a user has a snapshot with a digest.
func (q snapshots) Has(ctx context.Context, userID, digest string) (has bool, err error) {
	err = q.s.read(ctx, func() error {
		has = q.has(userID, digest)
		return nil
	})
	return has, err
}

// Delete deletes a snapshot.
func (q snapshots) Delete(ctx context.Context, id string) (last bool, err error) {
	err = q.s.write(ctx, func() error {
		e := q.s.saved[id]
		if e == nil {
			return fmt.Errorf("snapshot %s: %w", id, store.ErrNotFound)
		}
		delete(q.s.saved, id)
		x := e.value
		if last = !q.has(x.UserID, x.Digest); last {
			q.s.bytes[x.UserID] = max(0, q.s.bytes[x.UserID]-x.StoredBytes)
		}
		return nil
	})
	return last, err
}

// Expired returns the snapshots that expired before a time.
func (q snapshots) Expired(ctx context.Context, t time.Time, limit int) (list []belljar.Snapshot, err error) {
	err = q.s.read(ctx, func() error {
		for _, e := range q.s.saved {
			if x := e.value; len(list) < limit && x.ExpiresAt != nil && x.ExpiresAt.Before(t) {
				x.ExpiresAt = new(*x.ExpiresAt)
				list = append(list, x)
			}
		}
		return nil
	})
	return list, err
}
