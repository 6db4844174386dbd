package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

type users struct{ s *Store }

func (q users) usage(userID string, t time.Time) belljar.UserUsage {
	return belljar.UserUsage{
		UserID: userID, ArtifactBytes: q.s.bytes[userID], LogBytes: q.s.logs[userID], CPUSecondsToday: q.s.cpu[userDay{userID, day(t)}],
		EgressBytesToday: q.s.egress[userDay{userID, day(t)}],
	}
}

// Usage returns a user's usage on the day of t.
func (q users) Usage(ctx context.Context, userID string, t time.Time) (u belljar.UserUsage, err error) {
	err = q.s.read(ctx, func() error {
		u = q.usage(userID, t)
		return nil
	})
	return u, err
}

// Charge adds to a user's usage of a day.
func (q users) Charge(ctx context.Context, userID string, c store.Charge, t time.Time) error {
	return q.s.write(ctx, func() error {
		q.s.charge(userID, c, t)
		return nil
	})
}

func (s *Store) charge(userID string, c store.Charge, t time.Time) {
	on := userDay{userID, day(t)}
	s.cpu[on] += c.CPUSeconds
	s.egress[on] += c.EgressBytes
	s.bytes[userID] += 0 // so that Top lists the user
}

// DeleteBefore deletes the usage of the days before that of a time.
func (q users) DeleteBefore(ctx context.Context, before time.Time) (n int, err error) {
	err = q.s.write(ctx, func() error {
		first, had := day(before), len(q.s.cpu)
		maps.DeleteFunc(q.s.cpu, func(on userDay, _ float64) bool { return on.day < first })
		maps.DeleteFunc(q.s.egress, func(on userDay, _ int64) bool { return on.day < first })
		n = had - len(q.s.cpu)
		return nil
	})
	return n, err
}

// Top lists users by artifact bytes.
func (q users) Top(ctx context.Context, limit int, t time.Time) (out []belljar.UserUsage, err error) {
	err = q.s.read(ctx, func() error {
		for id := range q.s.bytes {
			out = append(out, q.usage(id, t))
		}
		slices.SortFunc(out, func(a, b belljar.UserUsage) int {
			return cmp.Or(cmp.Compare(b.ArtifactBytes, a.ArtifactBytes), cmp.Compare(a.UserID, b.UserID))
		})
		out = pageOf(out, limit, 0)
		return nil
	})
	return out, err
}

// Kept returns how many bytes are stored in total, and for how many users: those with more than old records, if there are any.
func (q users) Kept(ctx context.Context) (bytes int64, users int, err error) {
	err = q.s.read(ctx, func() error {
		old := 0                               // users with old records only
		for id, artifacts := range q.s.bytes { // s.bytes also has an entry for every user with logs or records
			bytes += artifacts + q.s.logs[id] + q.s.records[id]
			if artifacts+q.s.logs[id]+q.s.recent[id] > 0 {
				users++
			} else if q.s.records[id] > 0 {
				old++
			}
		}
		if users == 0 {
			users = old
		}
		return nil
	})
	return bytes, users, err
}

// Recorded returns the size of the records of a user's ended runs and sessions.
func (q users) Recorded(ctx context.Context, userID string) (all, recent int64, err error) {
	err = q.s.read(ctx, func() error {
		all, recent = q.s.records[userID], q.s.recent[userID]
		return nil
	})
	return all, recent, err
}

// Quota returns a user's stored quota.
func (q users) Quota(ctx context.Context, userID string) (quota belljar.Quota, err error) {
	err = q.s.read(ctx, func() error {
		var ok bool
		if quota, ok = q.s.quotas[userID]; !ok {
			return store.ErrNotFound
		}
		return nil
	})
	return quota, err
}

// SetQuota stores a user's quota, or deletes it.
func (q users) SetQuota(ctx context.Context, userID string, quota *belljar.Quota) error {
	return q.s.write(ctx, func() error {
		if quota == nil {
			delete(q.s.quotas, userID)
			return nil
		}
		q.s.quotas[userID] = *quota
		return nil
	})
}
