package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/belljar/belljar/internal/store"
)

// Store is a store in a SQLite file.
type Store struct {
	path    string
	log     *slog.Logger
	writeDB *sql.DB // one connection, the writer's
	writer  *writer
	readDB  *sql.DB
	listDB  *sql.DB // for lists
	turns   turns
	stmts   statements
	once    sync.Once
	closed  error
}

// statements are the prepared statements of frequent reads.
type statements struct {
	run, session, key, token, records *sql.Stmt
}

func prepare(ctx context.Context, db *sql.DB) (s statements, err error) {
	for _, each := range []struct {
		to  **sql.Stmt
		sql string
	}{
		{&s.run, "SELECT " + runColumns + ", r.spec, r.artifacts, r.log FROM sandbox_runs r WHERE r.id = ?"},
		{&s.session, "SELECT " + sessionColumns + " FROM sandbox_sessions WHERE id = ?"},
		{&s.key, "SELECT " + keyColumns + " FROM sandbox_idempotency WHERE endpoint = ? AND user_key = ? AND key = ?"},
		{&s.token, "SELECT " + tokenColumns + " FROM sandbox_tokens WHERE hash = ?"},
		{&s.records, "SELECT coalesce(sum(record_bytes), 0), coalesce(sum(recent_record_bytes), 0) FROM sandbox_usage WHERE user_id = ?"},
	} {
		if *each.to, err = db.PrepareContext(ctx, each.sql); err != nil {
			return s, err
		}
	}
	return s, nil
}

// Mode returns sqlite.
func (s *Store) Mode() string { return "sqlite" }

// Runs returns the stored runs.
func (s *Store) Runs() store.Runs { return runs{s} }

// Sessions returns the stored sessions.
func (s *Store) Sessions() store.Sessions { return sessions{s} }

// Keys returns the idempotency keys.
func (s *Store) Keys() store.Keys { return keys{s} }

// Users returns the usage and the quotas of users.
func (s *Store) Users() store.Users { return users{s} }

// Tokens returns the stored API keys.
func (s *Store) Tokens() store.Tokens { return tokens{s} }

// Secrets returns the secrets that users store.
func (s *Store) Secrets() store.Secrets { return secrets{s} }

// Approvals returns the stored approvals.
func (s *Store) Approvals() store.Approvals { return approvals{s} }

// Snapshots returns the records of saved workspaces.
func (s *Store) Snapshots() store.Snapshots { return snapshots{s} }

// Templates returns the records of templates.
func (s *Store) Templates() store.Templates { return templates{s} }

// maxDeleted is the largest number of rows that one write of a sweep deletes. It bounds how long other writes wait.
const maxDeleted = 500

// deleting returns the statement that deletes at most maxDeleted of the rows that match a condition. key is the table's primary key.
func deleting(table, key, where string) string {
	return fmt.Sprintf("DELETE FROM %s WHERE (%s) IN (SELECT %[2]s FROM %[1]s WHERE %[3]s LIMIT %[4]d)", table, key, where, maxDeleted)
}

// delete repeats a statement of deleting until no row matches, and returns the number of deleted rows.
func (s *Store) delete(ctx context.Context, statement string, args ...any) (total int, err error) {
	return s.deleteBy(ctx, func(t *tx) (int64, error) { return t.exec(statement, args...) })
}

// deleteBy is delete by a function that executes the statement.
func (s *Store) deleteBy(ctx context.Context, some func(*tx) (int64, error)) (total int, err error) {
	for {
		var n int64
		err := s.writer.do(ctx, write{do: func(t *tx) (err error) {
			n, err = some(t)
			return err
		}})
		if err != nil {
			return total, err
		}
		if total += int(n); n < maxDeleted {
			return total, nil
		}
	}
}

// Ping writes a number and reads it back over a reader's connection. It fails once any read or write has found the file damaged.
func (s *Store) Ping(ctx context.Context) error {
	if damage := s.writer.damage.Load(); damage != nil {
		return *damage
	}
	var wrote, read int64
	err := s.writer.do(ctx, write{do: func(t *tx) error {
		return t.row("UPDATE sandbox_ping SET n = n + 1 RETURNING n").Scan(&wrote)
	}})
	if err != nil {
		return err
	}
	if err := s.readDB.QueryRowContext(ctx, "SELECT n FROM sandbox_ping").Scan(&read); err != nil {
		return s.failed(ctx, err)
	}
	if read < wrote {
		return fmt.Errorf("store %s: wrote %d, read %d", s.path, wrote, read)
	}
	return nil
}

// Close finishes the queued writes, merges SQLite's log into the file and closes it.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.closed = errors.Join(s.writer.close(), s.closeDBs())
	})
	return s.closed
}

// closeDBs closes the readers first: the last connection to close merges SQLite's log into the file.
func (s *Store) closeDBs() error {
	var err error
	for _, db := range []*sql.DB{s.readDB, s.listDB} {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}
	return errors.Join(err, s.writeDB.Close())
}

// failed maps the error of a read. It returns the context's error if the context has ended.
func (s *Store) failed(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case <-s.writer.quit:
		return store.ErrClosed
	default:
		return s.writer.mapError(err)
	}
}
