package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

type keys struct{ s *Store }

const keyColumns = "endpoint, user_key, key, fingerprint, object_id, response_body, created_at, created_us"

func scanKey(row scanner) (store.Key, error) {
	var k store.Key
	var response sql.NullString
	var sec, us int64
	err := row.Scan(&k.Endpoint, &k.UserKey, &k.Key, &k.Fingerprint, &k.ObjectID, &response, &sec, &us)
	if err != nil {
		return store.Key{}, scanFailed("idempotency key", k.Key, err)
	}
	if response.Valid {
		k.Response = []byte(response.String)
	}
	k.CreatedAt = epochTime(sec, us)
	return k, nil
}

// epoch returns a time as seconds since 1970 and the remaining microseconds.
func epoch(t time.Time) (sec, us int64) { return t.Unix(), int64(t.Nanosecond() / 1000) }

func epochTime(sec, us int64) time.Time { return time.Unix(sec, us*1000).UTC() }

func keyName(key *store.Key) any {
	if key == nil {
		return nil
	}
	return key.Key
}

// insert stores an object and its idempotency key in one transaction. If the key is already in force, insert stores
// neither and returns the prior entry.
func (s *Store) insert(ctx context.Context, key *store.Key, object func(*tx) error) (*store.Key, error) {
	if key == nil {
		return nil, s.writer.do(ctx, write{do: object})
	}
	var prior *store.Key
	k := *key
	var response any
	if k.Response != nil {
		response = string(k.Response)
	}
	sec, us := epoch(k.CreatedAt)
	err := s.writer.do(ctx, write{do: func(t *tx) error {
		prior = nil
		old, err := scanKey(t.row("SELECT "+keyColumns+" FROM sandbox_idempotency WHERE endpoint = ? AND user_key = ? AND key = ?", k.Endpoint, k.UserKey, k.Key))
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return err
		case !old.CreatedAt.Before(k.NotBefore.Truncate(time.Microsecond)):
			prior = &old
			return nil
		}
		_, err = t.exec("INSERT OR REPLACE INTO sandbox_idempotency ("+keyColumns+") VALUES (?,?,?,?,?,?,?,?)",
			k.Endpoint, k.UserKey, k.Key, k.Fingerprint, k.ObjectID, response, sec, us)
		if err != nil {
			return err
		}
		return object(t)
	}})
	if err != nil {
		return nil, err
	}
	return prior, nil
}

// Get returns a key.
func (q keys) Get(ctx context.Context, endpoint, userKey, key string) (store.Key, error) {
	k, err := scanKey(q.s.stmts.key.QueryRowContext(ctx, endpoint, userKey, key))
	if err != nil {
		return store.Key{}, q.s.failed(ctx, err)
	}
	return k, nil
}

// keysOf returns the statement that lists keys.
func keysOf(query belljar.KeyQuery) (statement string, args []any) {
	where := "1"
	if query.Endpoint != "" {
		where, args = where+" AND endpoint = ?", append(args, query.Endpoint)
	}
	if query.UserID != "" {
		where, args = where+" AND user_key = ?", append(args, query.UserID)
	}
	return "SELECT endpoint, user_key, key, object_id, created_at, created_us FROM sandbox_idempotency WHERE " + where +
		" ORDER BY created_at DESC, created_us DESC, rowid DESC LIMIT ? OFFSET ?", args
}

// List returns one page, newest first.
func (q keys) List(ctx context.Context, query belljar.KeyQuery) ([]belljar.KeyEntry, error) {
	limit, offset := store.Page(query.Limit, query.Offset)
	statement, args := keysOf(query)
	return list(ctx, q.s, query.UserID, func(row scanner) (e belljar.KeyEntry, err error) {
		var sec, us int64
		if err := row.Scan(&e.Endpoint, &e.UserKey, &e.Key, &e.ObjectID, &sec, &us); err != nil {
			return e, scanFailed("idempotency key", e.Key, err)
		}
		e.CreatedAt = epochTime(sec, us)
		return e, nil
	}, statement, append(args, limit, offset)...)
}

// Delete deletes a key if it names objectID.
func (q keys) Delete(ctx context.Context, endpoint, userKey, key, objectID string) error {
	return q.s.writer.do(ctx, write{do: func(t *tx) error {
		_, err := t.exec("DELETE FROM sandbox_idempotency WHERE endpoint = ? AND user_key = ? AND key = ? AND object_id = ?", endpoint, userKey, key, objectID)
		return err
	}})
}

var deleteKeys = deleting("sandbox_idempotency", "rowid", "created_at < ?1 OR (created_at = ?1 AND created_us < ?2)")

// DeleteBefore deletes the keys that were created before a time.
func (q keys) DeleteBefore(ctx context.Context, before time.Time) (int, error) {
	sec, us := epoch(before)
	return q.s.delete(ctx, deleteKeys, sec, us)
}
