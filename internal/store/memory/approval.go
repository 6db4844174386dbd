package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

type approvals struct{ s *Store }

// keptApproval returns an approval in the form that stores return.
func keptApproval(a belljar.Approval) (belljar.Approval, error) {
	a.RequestedAt, a.ExpiresAt, a.DecidedAt = instant(a.RequestedAt), instant(a.ExpiresAt), instantOrNil(a.DecidedAt)
	return deepCopy(a)
}

// Put stores an approval.
func (q approvals) Put(ctx context.Context, a belljar.Approval) error {
	a, err := keptApproval(a)
	if err != nil {
		return err
	}
	return q.s.write(ctx, func() error {
		q.s.asked[a.ID] = &entry[belljar.Approval]{arrival: q.s.next(), value: a}
		return nil
	})
}

// Decide replaces an approval that is pending.
func (q approvals) Decide(ctx context.Context, a belljar.Approval) error {
	a, err := keptApproval(a)
	if err != nil {
		return err
	}
	return q.s.write(ctx, func() error {
		e := q.s.asked[a.ID]
		switch {
		case e == nil:
			return fmt.Errorf("approval %s: %w", a.ID, store.ErrNotFound)
		case e.value.State != belljar.ApprovalPending:
			return fmt.Errorf("approval %s: %w", a.ID, store.ErrEnded)
		}
		e.value = a
		return nil
	})
}

// Get returns an approval.
func (q approvals) Get(ctx context.Context, id string) (a belljar.Approval, err error) {
	err = q.s.read(ctx, func() error {
		e := q.s.asked[id]
		if e == nil {
			return store.ErrNotFound
		}
		a, err = deepCopy(e.value)
		return err
	})
	return a, err
}

// List returns one page, newest first.
func (q approvals) List(ctx context.Context, query belljar.ApprovalQuery) (page []belljar.Approval, total int, err error) {
	err = q.s.read(ctx, func() error {
		var all []*entry[belljar.Approval]
		for _, e := range q.s.asked {
			if matches(string(query.State), string(e.value.State)) && matches(query.UserID, e.value.UserID) {
				all = append(all, e)
			}
		}
		sortEntries(all, true, func(a *belljar.Approval) time.Time { return a.RequestedAt })
		total = len(all)
		page, err = copyPage(pageOf(all, query.Limit, query.Offset), nil)
		return err
	})
	return page, total, err
}

// DeleteBefore deletes the approvals that are not pending and were requested before t.
func (q approvals) DeleteBefore(ctx context.Context, t time.Time) (n int, err error) {
	err = q.s.write(ctx, func() error {
		for id, e := range q.s.asked {
			if e.value.State != belljar.ApprovalPending && e.value.RequestedAt.Before(instant(t)) {
				delete(q.s.asked, id)
				n++
			}
		}
		return nil
	})
	return n, err
}
