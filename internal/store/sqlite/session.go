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

type sessions struct{ s *Store }

const (
	listedSession  = "id, user_id, state, message, runtime, base_image, scope_key, created_at, expires_at, ended_at, tenant, node_id, worker_id, lease_epoch, detail"
	sessionColumns = listedSession + ", spec"
)

// sessionDetail is the column detail.
type sessionDetail struct {
	belljar.Session
	Image   *store.Image `json:"image,omitempty"`
	Secrets []byte       `json:"sealed_secrets,omitempty"`

	Below       string             `json:"below,omitempty"`
	Operator    bool               `json:"operator,omitempty"`
	Hibernation *store.Hibernation `json:"hibernation,omitempty"`
}

// sessionRow returns the values of a session's columns from state on, without the immutable ones.
func sessionRow(s *store.Session) ([]any, error) {
	rest := s.Session // fields with a column are not stored twice
	rest.ID, rest.UserID, rest.State, rest.Message, rest.Runtime, rest.BaseImage = "", "", "", "", "", ""
	rest.CreatedAt, rest.ExpiresAt = time.Time{}, time.Time{}
	detail, err := marshal(sessionDetail{rest, s.Image, s.Secrets, s.Below, s.Operator, s.Hibernation})
	if err != nil {
		return nil, err
	}
	spec, err := marshal(s.Spec)
	if err != nil {
		return nil, err
	}
	return []any{string(s.State), s.Message, s.Runtime, s.BaseImage, timeText(s.ExpiresAt), timeOrNull(s.EndedAt),
		s.Tenant, s.NodeID, s.WorkerID, s.LeaseEpoch, detail, spec}, nil
}

func scanSession(row scanner) (s store.Session, err error) {
	var (
		id, owner, state, message, runtime, image, created, expires, detail, spec string
		key, ended                                                                sql.NullString
	)
	err = row.Scan(&id, &owner, &state, &message, &runtime, &image, &key, &created, &expires, &ended,
		&s.Tenant, &s.NodeID, &s.WorkerID, &s.LeaseEpoch, &detail, &spec)
	if err != nil {
		return store.Session{}, scanFailed("session", id, err)
	}
	var errs [6]error
	var rest sessionDetail
	errs[0] = unmarshal("detail", detail, &rest)
	s.Session, s.Image, s.Secrets, s.Below, s.Operator, s.Hibernation = rest.Session, rest.Image, rest.Secrets, rest.Below, rest.Operator, rest.Hibernation
	errs[1] = unmarshal("spec", spec, &s.Spec)
	s.ID, s.UserID, s.State, s.Message, s.Runtime, s.BaseImage, s.Key = id, owner, belljar.SessionState(state), message, runtime, image, key.String
	s.CreatedAt, errs[2] = parseTime(created)
	s.ExpiresAt, errs[3] = parseTime(expires)
	s.EndedAt, errs[4] = parseTimeOrNull(ended)
	errs[5] = checkState(s.State)
	if err := errors.Join(errs[:]...); err != nil {
		return store.Session{}, fmt.Errorf("session %q: %w", id, err)
	}
	return s, nil
}

func checkState(s belljar.SessionState) error {
	switch s {
	case belljar.SessionStarting, belljar.SessionActive, belljar.SessionHibernated, belljar.SessionClosed, belljar.SessionExpired, belljar.SessionCrashed, belljar.SessionLost:
		return nil
	}
	return fmt.Errorf("%w: state %q", store.ErrCorrupt, s)
}

// Insert stores a session.
func (q sessions) Insert(ctx context.Context, s store.Session, key *store.Key) (*store.Key, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	row, err := sessionRow(&s)
	if err != nil {
		return nil, err
	}
	args := append([]any{s.ID, s.UserID, timeText(s.CreatedAt), textOrNull(s.Key), keyName(key)}, row...)
	return q.s.insert(ctx, key, func(t *tx) error {
		_, err := t.exec("INSERT INTO sandbox_sessions (id, user_id, created_at, scope_key, idempotency_key, state, message, runtime, base_image, "+
			"expires_at, ended_at, tenant, node_id, worker_id, lease_epoch, detail, spec) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", args...)
		if err != nil || s.EndedAt == nil {
			return err
		}
		return countEnded(t, "+", "id = ?", s.ID)
	})
}

// Update replaces a session. For a hibernated session it is durable, because its sandbox is destroyed directly afterwards.
func (q sessions) Update(ctx context.Context, s store.Session) error {
	if err := s.Check(); err != nil {
		return err
	}
	row, err := sessionRow(&s)
	if err != nil {
		return err
	}
	id := s.ID
	args := append(row, s.Key, id)
	return q.s.writer.do(ctx, write{durable: s.State == belljar.SessionHibernated, do: func(t *tx) error {
		if err := countEnded(t, "-", "id = ?", id); err != nil {
			return err
		}
		n, err := t.exec("UPDATE sandbox_sessions SET state = ?, message = ?, runtime = ?, base_image = ?, expires_at = ?, ended_at = ?, "+
			"tenant = ?, node_id = ?, worker_id = ?, lease_epoch = ?, detail = ?, spec = ?, "+
			"scope_key = CASE ? WHEN '' THEN NULL ELSE scope_key END WHERE id = ?", args...)
		if err == nil && n == 0 {
			return fmt.Errorf("session %s: %w", id, store.ErrNotFound)
		}
		if err != nil || s.EndedAt == nil {
			return err
		}
		return countEnded(t, "+", "id = ?", id)
	}})
}

// countEnded adds (+) the size of the records of some sessions to their owners' records, or subtracts it (-). An open session counts nothing. The
// sums of existing stores rely on this size: a change needs a migration.
func countEnded(t *tx, sign, where string, args ...any) error {
	_, err := t.exec("INSERT INTO sandbox_usage (user_id, record_bytes) "+
		"SELECT user_id, "+sign+"sum(octet_length(detail) + octet_length(message)) FROM sandbox_sessions WHERE ended_at IS NOT NULL AND "+where+" GROUP BY user_id "+
		"ON CONFLICT (user_id) DO UPDATE SET record_bytes = max(0, record_bytes + excluded.record_bytes)", args...)
	return err
}

// Get returns a session.
func (q sessions) Get(ctx context.Context, id string) (store.Session, error) {
	s, err := scanSession(q.s.stmts.session.QueryRowContext(ctx, id))
	if err != nil {
		return store.Session{}, q.s.failed(ctx, err)
	}
	return s, nil
}

// newestSessions is the order of a list.
const newestSessions = " ORDER BY created_at DESC, rowid DESC LIMIT ? OFFSET ?"

// sessionsOf returns the condition that selects the sessions of a list.
func sessionsOf(userID string, query belljar.SessionQuery) (where string, args []any) {
	where = " FROM sandbox_sessions WHERE 1"
	if userID != "" {
		where, args = where+" AND user_id = ?", append(args, userID)
	}
	if !query.All {
		where += " AND ended_at IS NULL"
	}
	if query.KeyPrefix != "" { // compares bytes: LIKE would ignore case
		where += " AND substr(CAST(scope_key AS BLOB), 1, ?) = CAST(? AS BLOB)"
		args = append(args, len(query.KeyPrefix), query.KeyPrefix)
	}
	return where, args
}

// List returns one page of an owner's sessions.
func (q sessions) List(ctx context.Context, userID string, query belljar.SessionQuery) (page []store.Session, total int, err error) {
	where, args := sessionsOf(userID, query)
	return paged(ctx, q.s, userID, listedSession+", '{}'", where, newestSessions, args, query.Limit, query.Offset, scanSession)
}

const unfinishedSessions = "SELECT " + sessionColumns + " FROM sandbox_sessions WHERE ended_at IS NULL ORDER BY created_at, rowid"

// Unfinished returns every session that has not ended.
func (q sessions) Unfinished(ctx context.Context) ([]store.Session, error) {
	rows, err := q.s.readDB.QueryContext(ctx, unfinishedSessions)
	return collect(ctx, q.s, rows, err, scanSession)
}

// endedBefore selects the sessions of one write of a sweep, and deleteEnded deletes the same.
const endedBefore = "ended_at < ? ORDER BY ended_at, rowid"

var deleteEnded = deleting("sandbox_sessions", "rowid", endedBefore)

// DeleteEnded deletes the sessions that ended before a time.
func (q sessions) DeleteEnded(ctx context.Context, before time.Time) (int, error) {
	text := timeText(before)
	return q.s.deleteBy(ctx, func(t *tx) (int64, error) {
		err := countEnded(t, "-", fmt.Sprintf("rowid IN (SELECT rowid FROM sandbox_sessions WHERE %s LIMIT %d)", endedBefore, maxDeleted), text)
		if err != nil {
			return 0, err
		}
		return t.exec(deleteEnded, text)
	})
}
