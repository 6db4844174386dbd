package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

const runColumns = "r.id, r.user_id, r.spec_version, r.runtime, r.runtime_version, r.base_image, r.image_digest, r.phase, r.exit_code, " +
	"r.started_at, r.finished_at, r.message, r.policy_hash, r.created_at, r.session_id, r.last_seq, r.log_bytes, r.log_gone, r.artifacts_gone, " +
	"r.tenant, r.node_id, r.worker_id, r.lease_epoch, r.detail"

// scanRun scans runColumns for a list, and later columns into more. ErrCorrupt concerns this row only.
func scanRun(row scanner, more ...any) (store.Run, error) {
	r, _, err := scanSealedRun(row, more...)
	r.Secrets = nil
	return r, err
}

// scanSealedRun is scanRun with the run's secrets. failure is its encoded failure.
func scanSealedRun(row scanner, more ...any) (r store.Run, failure json.RawMessage, err error) {
	var (
		id, owner, specVersion, runtime, runtimeVersion, image, digest, phase, message, policy, created, detail string
		started, finished, session                                                                              sql.NullString
		exit                                                                                                    sql.NullInt64
		seq                                                                                                     int64
	)
	err = row.Scan(append([]any{&id, &owner, &specVersion, &runtime, &runtimeVersion, &image, &digest, &phase, &exit,
		&started, &finished, &message, &policy, &created, &session, &seq, &r.LogBytes, &r.LogGone, &r.ArtifactsGone,
		&r.Tenant, &r.NodeID, &r.WorkerID, &r.LeaseEpoch, &detail}, more...)...)
	if err != nil {
		return store.Run{}, nil, scanFailed("run", id, err)
	}
	var rest runDetail
	if err := unmarshal("detail", detail, &rest); err != nil {
		return store.Run{}, nil, fmt.Errorf("run %q: %w", id, err)
	}
	r.Run, r.Limits, r.Image, r.Below, r.Secrets, r.Operator = rest.Run, rest.Limits, rest.Image, rest.Below, rest.Secrets, rest.Operator
	r.ID, r.UserID, r.SessionID, r.SpecVersion, r.Runtime, r.RuntimeVersion = id, owner, session.String, specVersion, runtime, runtimeVersion
	r.BaseImage, r.ImageDigest, r.Phase, r.Message, r.PolicyHash = image, digest, belljar.Phase(phase), message, policy
	r.LastSeq = uint64(seq)
	r.ExitCode = nil
	if exit.Valid {
		r.ExitCode = new(int(exit.Int64))
	}
	var errs [3]error
	r.CreatedAt, errs[0] = parseTime(created)
	r.StartedAt, errs[1] = parseTimeOrNull(started)
	r.FinishedAt, errs[2] = parseTimeOrNull(finished)
	if err := errors.Join(errs[:]...); err != nil {
		return store.Run{}, nil, fmt.Errorf("run %q: %w", id, err)
	}
	if err := checkPhase(r.Phase, r.FinishedAt); err != nil {
		return store.Run{}, nil, fmt.Errorf("run %q: %w", id, err)
	}
	return r, rest.Failure, nil
}

// scanFailed returns ErrCorrupt for a value of the wrong type, and any other error as it is.
func scanFailed(noun, id string, err error) error {
	if err == nil || errors.Is(err, sql.ErrNoRows) || isDriverError(err) || id == "" {
		return err
	}
	return fmt.Errorf("%s %q: %w: %w", noun, id, store.ErrCorrupt, err)
}

func checkPhase(p belljar.Phase, finished *time.Time) error {
	switch p {
	case belljar.PhaseQueued, belljar.PhaseStarting, belljar.PhaseRunning:
		if finished == nil {
			return nil
		}
	default:
		if p.Terminal() && finished != nil {
			return nil
		}
	}
	return fmt.Errorf("%w: phase %q, ended %t", store.ErrCorrupt, p, finished != nil)
}

// scanWholeRun scans runColumns, spec, artifacts and log.
func scanWholeRun(row scanner) (store.Run, error) {
	var spec sql.NullString
	var artifacts, log []byte
	r, failure, err := scanSealedRun(row, &spec, &artifacts, &log)
	r.Artifacts, r.Log = artifacts, log
	if err != nil {
		return r, err
	}
	if failure != nil {
		if err := unmarshal("detail", string(failure), &r.Failure); err != nil {
			return store.Run{}, fmt.Errorf("run %q: %w", r.ID, err)
		}
	}
	if spec.Valid {
		if err := unmarshal("spec", spec.String, &r.Spec); err != nil {
			return store.Run{}, fmt.Errorf("run %q: %w", r.ID, err)
		}
	}
	return r, nil
}

// Get returns a run.
func (q runs) Get(ctx context.Context, id string) (store.Run, error) {
	r, err := scanWholeRun(q.s.stmts.run.QueryRowContext(ctx, id))
	if err != nil {
		return store.Run{}, q.s.failed(ctx, err)
	}
	return r, nil
}

// unfinished selects by finished_at, so that it also finds, and logs, rows with an unknown phase.
const unfinished = "SELECT " + runColumns + ", r.spec, r.artifacts, r.log FROM sandbox_runs r INDEXED BY idx_runs_finished_at " +
	"WHERE r.finished_at IS NULL ORDER BY r.created_at, r.rowid"

// Unfinished returns every run that has not ended, oldest first.
func (q runs) Unfinished(ctx context.Context) ([]store.Run, error) {
	rows, err := q.s.readDB.QueryContext(ctx, unfinished)
	return collect(ctx, q.s, rows, err, scanWholeRun)
}

// sweepable selects runs that finished before a time: those that still have bytes, or all.
func sweepable(bytes bool) string {
	from := "INDEXED BY idx_runs_finished_at WHERE r.finished_at < ?"
	if bytes {
		from = "INDEXED BY idx_runs_unswept WHERE r.log_gone + r.artifacts_gone < 2 AND r.finished_at < ?"
	}
	return "SELECT " + runColumns + " FROM sandbox_runs r " + from + " ORDER BY r.finished_at, r.rowid"
}

// Sweepable returns runs that finished before t.
func (q runs) Sweepable(ctx context.Context, t time.Time, bytes bool, limit int) ([]store.Run, error) {
	rows, err := q.s.readDB.QueryContext(ctx, sweepable(bytes), timeText(t))
	return collectUpTo(ctx, q.s, limit, rows, err, func(row scanner) (store.Run, error) { return scanRun(row) })
}

// paged counts the rows of a user's list and reads one page of them in one transaction, so that the count matches the page.
func paged[T any](ctx context.Context, s *Store, user, columns, from, order string, args []any, limit, offset int, scan func(scanner) (T, error)) (page []T, total int, err error) {
	tx, end, err := s.beginList(ctx, user)
	if err != nil {
		return nil, 0, err
	}
	defer end()
	if err := tx.QueryRowContext(ctx, "SELECT count(*)"+from, args...).Scan(&total); err != nil {
		return nil, 0, s.failed(ctx, err)
	}
	limit, offset = store.Page(limit, offset)
	rows, err := tx.QueryContext(ctx, "SELECT "+columns+from+order, append(args, limit, offset)...)
	page, err = collect(ctx, s, rows, err, scan)
	return page, total, err
}

// collect reads all rows. It skips and logs a corrupt one.
func collect[T any](ctx context.Context, s *Store, rows *sql.Rows, err error, scan func(scanner) (T, error)) ([]T, error) {
	return collectUpTo(ctx, s, math.MaxInt, rows, err, scan)
}

// collectUpTo is collect for at most limit rows. A corrupt one does not count, so that fewer are all that there are: a LIMIT in the statement
// would count it.
func collectUpTo[T any](ctx context.Context, s *Store, limit int, rows *sql.Rows, err error, scan func(scanner) (T, error)) ([]T, error) {
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	defer rows.Close()
	var all []T
	for len(all) < limit && rows.Next() {
		each, err := scan(rows)
		switch {
		case errors.Is(err, store.ErrCorrupt):
			s.log.ErrorContext(ctx, "the store has a corrupt row; it is left out", "path", s.path, "error", err)
		case err != nil:
			return nil, s.failed(ctx, err)
		default:
			all = append(all, each)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, s.failed(ctx, err)
	}
	return all, nil
}
