package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

type runs struct{ s *Store }

func normalized(r store.Run) (store.Run, error) {
	r.CreatedAt, r.StartedAt, r.FinishedAt = instant(r.CreatedAt), instantOrNil(r.StartedAt), instantOrNil(r.FinishedAt)
	r.Charge = store.Charge{}
	return deepCopy(r)
}

// Insert stores a run.
func (q runs) Insert(ctx context.Context, r store.Run, key *store.Key) (prior *store.Key, err error) {
	if err := r.CheckOpen(); err != nil {
		return nil, err
	}
	r.Log = nil
	r, err = normalized(r)
	if err != nil {
		return nil, err
	}
	err = q.s.write(ctx, func() error {
		if prior = q.s.activeKey(key); prior != nil {
			return nil
		}
		if q.s.runs[r.ID] != nil {
			return fmt.Errorf("run %s: %w", r.ID, store.ErrExists)
		}
		q.s.keep(key)
		q.s.runs[r.ID] = &entry[store.Run]{arrival: q.s.next(), value: r}
		return nil
	})
	return prior, err
}

// Update replaces a run that has not ended.
func (q runs) Update(ctx context.Context, r store.Run) error {
	if err := r.CheckOpen(); err != nil {
		return err
	}
	r.Log = nil
	r, err := normalized(r)
	if err != nil {
		return err
	}
	return q.s.write(ctx, func() error {
		e := q.s.runs[r.ID]
		switch {
		case e == nil:
			return fmt.Errorf("run %s: %w", r.ID, store.ErrNotFound)
		case e.value.FinishedAt != nil:
			return fmt.Errorf("run %s: %w", r.ID, store.ErrEnded)
		}
		replaceRun(e, r)
		return nil
	})
}

// Finish replaces a run with its final state.
func (q runs) Finish(ctx context.Context, r store.Run) error {
	if err := r.CheckEnded(); err != nil {
		return err
	}
	r.Spec, r.Secrets, r.Log = nil, nil, nil
	charged := r.Charged()
	r, err := normalized(r)
	if err != nil {
		return err
	}
	return q.s.write(ctx, func() error {
		e := q.s.runs[r.ID]
		switch {
		case e == nil:
			return fmt.Errorf("run %s: %w", r.ID, store.ErrNotFound)
		case e.value.FinishedAt != nil:
			return nil
		}
		replaceRun(e, r)
		q.s.addUsage(e.value, charged)
		return nil
	})
}

// Add stores a run that has ended.
func (q runs) Add(ctx context.Context, r store.Run) error {
	if err := r.CheckEnded(); err != nil {
		return err
	}
	r.Spec, r.Secrets = nil, nil
	charged := r.Charged()
	r, err := normalized(r)
	if err != nil {
		return err
	}
	return q.s.write(ctx, func() error {
		if q.s.runs[r.ID] != nil {
			return nil
		}
		q.s.runs[r.ID] = &entry[store.Run]{arrival: q.s.next(), value: r}
		q.s.addUsage(r, charged)
		return nil
	})
}

// addUsage adds a run's usage to its owner's.
func (s *Store) addUsage(r store.Run, charged store.Charge) {
	s.bytes[r.UserID] += r.KeptBytes()
	s.logs[r.UserID] += r.KeptLog()
	s.records[r.UserID] += recordBytes(r)
	s.recent[r.UserID] += recentBytes(r)
	s.charge(r.UserID, charged, *r.FinishedAt)
}

// recordBytes returns the size of an ended run's record, of what does not change later.
func recordBytes(r store.Run) int64 {
	raw, _ := json.Marshal(r.Run) // it has been encoded before
	return int64(len(raw) + len(r.Artifacts))
}

// recentBytes is recordBytes until the log is swept, then 0.
func recentBytes(r store.Run) int64 {
	if r.LogGone {
		return 0
	}
	return recordBytes(r)
}

// replaceRun replaces a run's mutable fields.
func replaceRun(e *entry[store.Run], r store.Run) {
	r.ID, r.UserID, r.CreatedAt = e.value.ID, e.value.UserID, e.value.CreatedAt
	e.value = r
}

// Get returns a run.
func (q runs) Get(ctx context.Context, id string) (r store.Run, err error) {
	err = q.s.read(ctx, func() (err error) {
		e := q.s.runs[id]
		if e == nil {
			return store.ErrNotFound
		}
		r, err = deepCopy(e.value)
		return err
	})
	return r, err
}

// List returns one page of the matching runs.
func (q runs) List(ctx context.Context, query belljar.RunQuery) (page []store.Run, total int, err error) {
	by, newest, err := store.Order(query.Sort)
	if err != nil {
		return nil, 0, err
	}
	err = q.s.read(ctx, func() (err error) {
		var all []*entry[store.Run]
		part := lower(query.Q)
		for _, e := range q.s.runs {
			if selected(&e.value, &query, part) {
				all = append(all, e)
			}
		}
		sortEntries(all, newest, func(r *store.Run) time.Time { return timeOf(r, by) })
		total = len(all)
		page, err = copyPage(pageOf(all, query.Limit, query.Offset), cutRun)
		return err
	})
	return page, total, err
}

func cutRun(r *store.Run) { r.Spec, r.Secrets, r.Artifacts, r.Log, r.Failure = nil, nil, nil, nil, nil }

func timeOf(r *store.Run, by string) time.Time {
	t := &r.CreatedAt
	switch by {
	case "started_at":
		t = r.StartedAt
	case "finished_at":
		t = r.FinishedAt
	}
	if t == nil {
		return time.Time{}
	}
	return *t
}

func selected(r *store.Run, q *belljar.RunQuery, part string) bool {
	return matches(q.UserID, r.UserID) && matches(q.SessionID, r.SessionID) && matches(string(q.Phase), string(r.Phase)) && matches(q.Runtime, r.Runtime) &&
		matches(q.BaseImage, r.BaseImage) && matches(q.ImageDigest, r.ImageDigest) &&
		within(r.StartedAt, q.StartedFrom, q.StartedTo) && within(r.FinishedAt, q.FinishedFrom, q.FinishedTo) &&
		(part == "" || strings.Contains(lower(r.BaseImage), part) || strings.Contains(lower(r.Message), part))
}

func matches(want, got string) bool { return want == "" || want == got }

func within(t *time.Time, from, to time.Time) bool {
	if from.IsZero() && to.IsZero() {
		return true
	}
	return t != nil && (from.IsZero() || !t.Before(instant(from))) && (to.IsZero() || !t.After(instant(to)))
}

// lower folds ASCII letters only, as the other stores do.
func lower(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' {
			return c + ('a' - 'A')
		}
		return c
	}, s)
}

// Unfinished returns every run that has not ended, oldest first.
func (q runs) Unfinished(ctx context.Context) (out []store.Run, err error) {
	err = q.s.read(ctx, func() (err error) {
		var all []*entry[store.Run]
		for _, e := range q.s.runs {
			if e.value.FinishedAt == nil {
				all = append(all, e)
			}
		}
		sortEntries(all, false, func(r *store.Run) time.Time { return r.CreatedAt })
		out, err = copyPage(all, nil)
		return err
	})
	return out, err
}

// Sweepable returns runs that finished before t.
func (q runs) Sweepable(ctx context.Context, t time.Time, bytes bool, limit int) (out []store.Run, err error) {
	err = q.s.read(ctx, func() (err error) {
		var all []*entry[store.Run]
		for _, e := range q.s.runs {
			ended := e.value.FinishedAt != nil && e.value.FinishedAt.Before(instant(t))
			if ended && !(bytes && e.value.LogGone && e.value.ArtifactsGone) {
				all = append(all, e)
			}
		}
		sortEntries(all, false, func(r *store.Run) time.Time { return *r.FinishedAt })
		out, err = copyPage(all[:min(limit, len(all))], cutRun)
		return err
	})
	return out, err
}

// Swept marks runs as having no bytes left.
func (q runs) Swept(ctx context.Context, ids ...string) error {
	return q.s.write(ctx, func() error {
		for _, id := range ids {
			if e := q.s.runs[id]; e != nil && e.value.FinishedAt != nil {
				q.s.release(e)
				e.value.LogGone, e.value.ArtifactsGone, e.value.Log = true, true, nil
			}
		}
		return nil
	})
}

// Delete deletes runs.
func (q runs) Delete(ctx context.Context, ids ...string) error {
	return q.s.write(ctx, func() error {
		for _, id := range ids {
			if e := q.s.runs[id]; e != nil {
				if e.value.FinishedAt != nil {
					q.s.release(e)
					q.s.records[e.value.UserID] -= recordBytes(e.value)
				}
				delete(q.s.runs, id)
			}
		}
		return nil
	})
}

// release subtracts a run's bytes from its owner's usage.
func (s *Store) release(e *entry[store.Run]) {
	s.bytes[e.value.UserID] = max(0, s.bytes[e.value.UserID]-e.value.KeptBytes())
	s.logs[e.value.UserID] = max(0, s.logs[e.value.UserID]-e.value.KeptLog())
	s.recent[e.value.UserID] -= recentBytes(e.value)
}
