package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/belljar/belljar/internal/store"
)

type tokens struct{ s *Store }

const tokenColumns = "id, hash, user_id, role, name, prefix, created_at, expires_at, last_used_at, revoked_at, parent"

func scanToken(row scanner) (t store.Token, err error) {
	var created string
	var expires, used, revoked sql.NullString
	if err := row.Scan(&t.ID, &t.Hash, &t.UserID, &t.Role, &t.Name, &t.Prefix, &created, &expires, &used, &revoked, &t.Parent); err != nil {
		return store.Token{}, scanFailed("token", t.ID, err)
	}
	var errs [4]error
	t.CreatedAt, errs[0] = parseTime(created)
	t.ExpiresAt, errs[1] = parseTimeOrNull(expires)
	t.LastUsedAt, errs[2] = parseTimeOrNull(used)
	t.RevokedAt, errs[3] = parseTimeOrNull(revoked)
	if err := errors.Join(errs[:]...); err != nil {
		return store.Token{}, fmt.Errorf("token %q: %w", t.ID, err)
	}
	return t, nil
}

// Insert stores a key. It is durable: the caller shows the secret once, right after.
func (q tokens) Insert(ctx context.Context, t store.Token) error {
	return q.s.writer.do(ctx, write{durable: true, do: func(w *tx) error { return insertToken(w, t) }})
}

func insertToken(w *tx, t store.Token) error {
	_, err := w.exec("INSERT INTO sandbox_tokens ("+tokenColumns+") VALUES (?,?,?,?,?,?,?,?,?,?,?)",
		t.ID, t.Hash, t.UserID, string(t.Role), t.Name, t.Prefix, timeText(t.CreatedAt), timeOrNull(t.ExpiresAt), timeOrNull(t.LastUsedAt), timeOrNull(t.RevokedAt), t.Parent)
	return err
}

// SignIn stores a sign-in, unless its user has too many. It is durable, like Insert.
func (q tokens) SignIn(ctx context.Context, t store.Token, most int) (stored bool, err error) {
	err = q.s.writer.do(ctx, write{durable: true, do: func(w *tx) error {
		stored = false
		if _, err := w.exec("DELETE FROM sandbox_tokens WHERE parent <> '' AND (expires_at <= ? OR revoked_at IS NOT NULL)", timeText(t.CreatedAt)); err != nil {
			return err
		}
		var n int
		if err := w.row("SELECT count(*) FROM sandbox_tokens WHERE parent <> '' AND user_id = ?", t.UserID).Scan(&n); err != nil || n >= most {
			return err
		}
		err := insertToken(w, t)
		stored = err == nil
		return err
	}})
	return stored && err == nil, err
}

var deleteTokens = deleting("sandbox_tokens", "rowid", "expires_at < ? OR revoked_at < ?")

// DeleteEnded deletes the tokens that expired, or were revoked, before a time.
func (q tokens) DeleteEnded(ctx context.Context, before time.Time) (int, error) {
	text := timeText(before)
	return q.s.delete(ctx, deleteTokens, text, text)
}

// Spend revokes a token that is not revoked. It is durable: a code must stay spent.
func (q tokens) Spend(ctx context.Context, hash string, at time.Time) error {
	return q.s.writer.do(ctx, write{durable: true, do: func(w *tx) error {
		n, err := w.exec("UPDATE sandbox_tokens SET revoked_at = ? WHERE hash = ? AND revoked_at IS NULL", timeText(at), hash)
		if err == nil && n == 0 {
			return store.ErrNotFound
		}
		return err
	}})
}

// ByHash returns the key with that hash.
func (q tokens) ByHash(ctx context.Context, hash string) (store.Token, error) {
	t, err := scanToken(q.s.stmts.token.QueryRowContext(ctx, hash))
	if err != nil {
		return store.Token{}, q.s.failed(ctx, err)
	}
	return t, nil
}

// List returns all tokens, newest first.
func (q tokens) List(ctx context.Context) ([]store.Token, error) {
	return list(ctx, q.s, "", scanToken, "SELECT "+tokenColumns+" FROM sandbox_tokens ORDER BY created_at DESC, rowid DESC")
}

// Used stores when a key was last used.
func (q tokens) Used(ctx context.Context, id string, at time.Time) error {
	return q.note(ctx, id, write{}, "UPDATE sandbox_tokens SET last_used_at = max(coalesce(last_used_at, ''), ?) WHERE id = ?", at)
}

// Revoke stores when a key was revoked. It is durable: a revoked key must stay revoked.
func (q tokens) Revoke(ctx context.Context, id string, at time.Time) error {
	return q.note(ctx, id, write{durable: true}, "UPDATE sandbox_tokens SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?", at)
}

func (q tokens) note(ctx context.Context, id string, op write, statement string, at time.Time) error {
	op.do = func(t *tx) error {
		n, err := t.exec(statement, timeText(at), id)
		if err == nil && n == 0 {
			return fmt.Errorf("token %s: %w", id, store.ErrNotFound)
		}
		return err
	}
	return q.s.writer.do(ctx, op)
}
