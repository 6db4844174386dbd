package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

type approvals struct{ s *Store }

func scanApproval(row scanner) (a belljar.Approval, err error) {
	var id, detail string
	if err := row.Scan(&id, &detail); err != nil {
		return a, scanFailed("approval", id, err)
	}
	if err := unmarshal("approval "+id, detail, &a); err != nil {
		return belljar.Approval{}, err
	}
	return a, nil
}

// Put stores an approval.
func (q approvals) Put(ctx context.Context, a belljar.Approval) error {
	detail, err := approvalDetail(a)
	if err != nil {
		return err
	}
	args := []any{a.ID, a.UserID, string(a.State), timeText(a.RequestedAt), detail}
	return q.s.writer.do(ctx, write{durable: true, do: func(t *tx) error {
		_, err := t.exec("INSERT OR REPLACE INTO sandbox_approvals (id, user_id, state, requested_at, detail) VALUES (?,?,?,?,?)", args...)
		return err
	}})
}

// approvalDetail returns the column detail, with times in the precision of stores.
func approvalDetail(a belljar.Approval) (string, error) {
	a.RequestedAt, a.ExpiresAt = a.RequestedAt.UTC().Truncate(time.Microsecond), a.ExpiresAt.UTC().Truncate(time.Microsecond)
	if a.DecidedAt != nil {
		a.DecidedAt = new(a.DecidedAt.UTC().Truncate(time.Microsecond))
	}
	return marshal(a)
}

// Decide replaces a pending approval. It is durable, because the approved request begins directly afterwards.
func (q approvals) Decide(ctx context.Context, a belljar.Approval) error {
	detail, err := approvalDetail(a)
	if err != nil {
		return err
	}
	id, state := a.ID, string(a.State)
	return q.s.writer.do(ctx, write{durable: true, do: func(t *tx) error {
		n, err := t.exec("UPDATE sandbox_approvals SET state = ?, detail = ? WHERE id = ? AND state = 'pending'", state, detail, id)
		if err != nil || n > 0 {
			return err
		}
		var one int
		switch err := t.row("SELECT 1 FROM sandbox_approvals WHERE id = ?", id).Scan(&one); {
		case err == nil:
			return fmt.Errorf("approval %s: %w", id, store.ErrEnded)
		case errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("approval %s: %w", id, store.ErrNotFound)
		default:
			return err
		}
	}})
}

// Get returns an approval.
func (q approvals) Get(ctx context.Context, id string) (belljar.Approval, error) {
	a, err := scanApproval(q.s.readDB.QueryRowContext(ctx, "SELECT id, detail FROM sandbox_approvals WHERE id = ?", id))
	if err != nil {
		return belljar.Approval{}, q.s.failed(ctx, err)
	}
	return a, nil
}

// newestApprovals is the order and the page of a list.
const newestApprovals = " ORDER BY requested_at DESC, rowid DESC LIMIT ? OFFSET ?"

// approvalsOf returns the end of a statement about the approvals that match a query.
func approvalsOf(query belljar.ApprovalQuery) (where string, args []any) {
	where = " FROM sandbox_approvals WHERE 1"
	if query.State != "" {
		where, args = where+" AND state = ?", append(args, string(query.State))
	}
	if query.UserID != "" {
		where, args = where+" AND user_id = ?", append(args, query.UserID)
	}
	return where, args
}

// List returns one page, newest first.
func (q approvals) List(ctx context.Context, query belljar.ApprovalQuery) (page []belljar.Approval, total int, err error) {
	where, args := approvalsOf(query)
	return paged(ctx, q.s, query.UserID, "id, detail", where, newestApprovals, args, query.Limit, query.Offset, scanApproval)
}

var deleteApprovals = deleting("sandbox_approvals", "rowid", "requested_at < ? AND state <> 'pending'")

// DeleteBefore deletes the approvals that are not pending and were requested before a time.
func (q approvals) DeleteBefore(ctx context.Context, before time.Time) (int, error) {
	return q.s.delete(ctx, deleteApprovals, timeText(before))
}
