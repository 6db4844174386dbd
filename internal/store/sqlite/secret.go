package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/belljar/belljar/internal/store"
)

type secrets struct{ s *Store }

const secretColumns = "user_id, name, sealed, created_at, updated_at"

func scanSecret(row scanner) (s store.Secret, err error) {
	var created, updated string
	if err := row.Scan(&s.Owner, &s.Name, &s.Sealed, &created, &updated); err != nil {
		return store.Secret{}, scanFailed("secret", s.Name, err)
	}
	var errs [2]error
	s.CreatedAt, errs[0] = parseTime(created)
	s.UpdatedAt, errs[1] = parseTime(updated)
	if err := errors.Join(errs[:]...); err != nil {
		return store.Secret{}, fmt.Errorf("secret %q: %w", s.Name, err)
	}
	return s, nil
}

// Put stores a secret. It is durable: its user may have no other copy.
func (q secrets) Put(ctx context.Context, s store.Secret) (kept store.Secret, err error) {
	args := []any{s.Owner, s.Name, s.Sealed, timeText(s.CreatedAt), timeText(s.UpdatedAt)}
	err = q.s.writer.do(ctx, write{durable: true, do: func(t *tx) (err error) {
		kept, err = scanSecret(t.row("INSERT INTO sandbox_secrets ("+secretColumns+") VALUES (?,?,?,?,?) "+
			"ON CONFLICT (user_id, name) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at RETURNING "+secretColumns, args...))
		return err
	}})
	return kept, err
}

// Get returns a secret.
func (q secrets) Get(ctx context.Context, owner, name string) (store.Secret, error) {
	s, err := scanSecret(q.s.readDB.QueryRowContext(ctx, "SELECT "+secretColumns+" FROM sandbox_secrets WHERE user_id = ? AND name = ?", owner, name))
	if err != nil {
		return store.Secret{}, q.s.failed(ctx, err)
	}
	return s, nil
}

// List returns an owner's secrets.
func (q secrets) List(ctx context.Context, owner string, shared bool) ([]store.Secret, error) {
	return list(ctx, q.s, owner, scanSecret, "SELECT "+secretColumns+" FROM sandbox_secrets"+ofOwner, owner, shared)
}

// All returns the secrets of all owners.
func (q secrets) All(ctx context.Context) ([]store.Secret, error) {
	rows, err := q.s.readDB.QueryContext(ctx, "SELECT "+secretColumns+" FROM sandbox_secrets ORDER BY name, user_id DESC")
	return collect(ctx, q.s, rows, err, scanSecret)
}

// Delete deletes a secret. It is durable: a removed secret must stay removed.
func (q secrets) Delete(ctx context.Context, owner, name string) error {
	return q.s.writer.do(ctx, write{durable: true, do: func(t *tx) error {
		n, err := t.exec("DELETE FROM sandbox_secrets WHERE user_id = ? AND name = ?", owner, name)
		if err == nil && n == 0 {
			return fmt.Errorf("secret %s: %w", name, store.ErrNotFound)
		}
		return err
	}})
}
