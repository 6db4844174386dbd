package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

type runs struct{ s *Store }

// runRow holds the column values of a run. It shares no memory with the run.
type runRow struct {
	id, owner, created string
	artifactBytes      int64
	logBytes           int64
	charged            store.Charge
	day                string // of its end

	fixed    []any // runtime, base_image, image_digest, session_id: in many indexes, and rarely changed
	state    []any // the rest, in the order of setState
	spec     any
	finished any
	left     any // artifacts
	log      []byte
}

const setState = "phase = ?, exit_code = ?, started_at = ?, message = ?, spec_version = ?, runtime_version = ?, policy_hash = ?, last_seq = ?, " +
	"log_bytes = ?, log_gone = ?, artifacts_gone = ?, tenant = ?, node_id = ?, worker_id = ?, lease_epoch = ?, detail = ?"

// insertState names the columns of a row's fixed and state.
const insertState = "runtime, base_image, image_digest, session_id, phase, exit_code, started_at, message, spec_version, runtime_version, " +
	"policy_hash, last_seq, log_bytes, log_gone, artifacts_gone, tenant, node_id, worker_id, lease_epoch, detail"

// runDetail is the column detail. Failure stands for the run's own, which a list does not decode.
type runDetail struct {
	belljar.Run
	Failure json.RawMessage `json:"failure,omitempty"`
	Limits  *belljar.Limits `json:"limits,omitempty"`
	Image   *store.Image    `json:"image,omitempty"`
	Below   string          `json:"below,omitempty"`
	Secrets []byte          `json:"sealed_secrets,omitempty"`

	Operator bool `json:"operator,omitempty"`
}

func encodeRun(r *store.Run) (row runRow, err error) {
	rest := r.Run // fields with a column are not stored twice
	rest.ID, rest.UserID, rest.SessionID, rest.SpecVersion, rest.Runtime, rest.RuntimeVersion = "", "", "", "", "", ""
	rest.BaseImage, rest.ImageDigest, rest.Phase, rest.ExitCode, rest.Message, rest.PolicyHash = "", "", "", nil, "", ""
	rest.CreatedAt, rest.StartedAt, rest.FinishedAt = time.Time{}, nil, nil
	failure, err := encodeFailure(r.Failure)
	if err != nil {
		return row, err
	}
	detail, err := marshal(runDetail{rest, failure, r.Limits, r.Image, r.Below, r.Secrets, r.Operator})
	if err != nil {
		return row, err
	}
	row = runRow{
		id: r.ID, owner: r.UserID, created: timeText(r.CreatedAt),
		artifactBytes: r.KeptBytes(), logBytes: r.KeptLog(), charged: r.Charged(),
		fixed: []any{r.Runtime, r.BaseImage, r.ImageDigest, textOrNull(r.SessionID)},
		state: []any{string(r.Phase), numberOrNull(r.ExitCode), timeOrNull(r.StartedAt), r.Message, r.SpecVersion, r.RuntimeVersion, r.PolicyHash, int64(r.LastSeq),
			r.LogBytes, r.LogGone, r.ArtifactsGone, r.Tenant, r.NodeID, r.WorkerID, r.LeaseEpoch, detail},
		finished: timeOrNull(r.FinishedAt), log: bytes.Clone(r.Log),
	}
	if r.FinishedAt != nil {
		row.day = r.FinishedAt.UTC().Format(dayLayout)
	}
	if r.Spec != nil {
		if row.spec, err = marshal(r.Spec); err != nil {
			return row, err
		}
	}
	if r.Artifacts != nil {
		row.left = string(r.Artifacts)
	}
	return row, nil
}

func encodeFailure(f *belljar.RunFailure) (json.RawMessage, error) {
	if f == nil {
		return nil, nil
	}
	text, err := marshal(f)
	return json.RawMessage(text), err
}

// Insert stores a run.
func (q runs) Insert(ctx context.Context, r store.Run, key *store.Key) (prior *store.Key, err error) {
	if err := r.CheckOpen(); err != nil {
		return nil, err
	}
	row, err := encodeRun(&r)
	if err != nil {
		return nil, err
	}
	args := append(append([]any{row.id, row.owner, row.created, row.spec, keyName(key)}, row.fixed...), row.state...)
	return q.s.insert(ctx, key, func(t *tx) error {
		_, err := t.exec("INSERT INTO sandbox_runs (id, user_id, created_at, spec, idempotency_key, "+insertState+
			") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", args...)
		return err
	})
}

// Add stores a run that has ended.
func (q runs) Add(ctx context.Context, r store.Run) error {
	if err := r.CheckEnded(); err != nil {
		return err
	}
	r.Spec, r.Secrets = nil, nil
	row, err := encodeRun(&r)
	if err != nil {
		return err
	}
	return q.s.writer.do(ctx, write{do: func(t *tx) error { return addRun(t, row) }})
}

// addRun inserts a run that has ended, unless it is already stored.
func addRun(t *tx, row runRow) error {
	args := append(append([]any{row.id, row.owner, row.created, row.finished, row.artifactBytes, row.left, row.log}, row.fixed...), row.state...)
	n, err := t.exec("INSERT INTO sandbox_runs (id, user_id, created_at, finished_at, artifact_bytes, artifacts, log, "+insertState+
		") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO NOTHING", args...)
	if err != nil || n == 0 {
		return err
	}
	return addUsage(t, row)
}

// Update replaces a run that has not ended.
func (q runs) Update(ctx context.Context, r store.Run) error {
	if err := r.CheckOpen(); err != nil {
		return err
	}
	row, err := encodeRun(&r)
	if err != nil {
		return err
	}
	args := append(append([]any{}, row.state...), row.spec, row.id)
	return q.s.writer.do(ctx, write{do: func(t *tx) error {
		n, err := t.exec("UPDATE sandbox_runs SET "+setState+", spec = ? WHERE id = ? AND finished_at IS NULL", args...)
		if err != nil {
			return err
		}
		if n == 0 {
			return closedOrMissing(t, row.id)
		}
		return setFixed(t, row)
	}})
}

// Finish replaces a run with its final state, durably.
func (q runs) Finish(ctx context.Context, r store.Run) error {
	if err := r.CheckEnded(); err != nil {
		return err
	}
	r.Secrets = nil
	row, err := encodeRun(&r)
	if err != nil {
		return err
	}
	args := append(append([]any{}, row.state...), row.finished, row.artifactBytes, row.left, row.id)
	return q.s.writer.do(ctx, write{durable: true, do: func(t *tx) error {
		// The fixed columns come first: they can change only while finished_at is NULL.
		if err := setFixed(t, row); err != nil {
			return err
		}
		n, err := t.exec("UPDATE sandbox_runs SET "+setState+", spec = NULL, finished_at = ?, artifact_bytes = ?, artifacts = ? "+
			"WHERE id = ? AND finished_at IS NULL", args...)
		if err != nil {
			return err
		}
		if n == 0 {
			if err := closedOrMissing(t, row.id); !errors.Is(err, store.ErrEnded) {
				return err
			}
			return nil
		}
		return addUsage(t, row)
	}})
}

// setFixed updates the columns that are in many indexes, if they have changed.
func setFixed(t *tx, row runRow) error {
	_, err := t.exec("UPDATE sandbox_runs SET runtime = ?1, base_image = ?2, image_digest = ?3, session_id = ?4 "+
		"WHERE id = ?5 AND finished_at IS NULL AND (runtime, base_image, image_digest, session_id) IS NOT (?1, ?2, ?3, ?4)",
		append(append([]any{}, row.fixed...), row.id)...)
	return err
}

func closedOrMissing(t *tx, id string) error {
	var one int
	err := t.row("SELECT 1 FROM sandbox_runs WHERE id = ?", id).Scan(&one)
	switch {
	case err == nil:
		return fmt.Errorf("run %s: %w", id, store.ErrEnded)
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("run %s: %w", id, store.ErrNotFound)
	}
	return err
}

// recordBytes is the size of an ended run's record, without its log: of what a user chooses, and nothing that changes later. Three indexes
// repeat the message. The sums of existing stores rely on this expression: a change needs a migration.
const recordBytes = "octet_length(r.detail) + 4 * octet_length(r.message) + coalesce(octet_length(r.artifacts), 0)"

// addUsage adds a run's usage to that of its stored owner; the caller's owner is ignored.
func addUsage(t *tx, row runRow) error {
	_, err := t.exec("INSERT INTO sandbox_usage (user_id, artifact_bytes, log_bytes, record_bytes, recent_record_bytes) "+
		"SELECT r.user_id, ?, ?, "+recordBytes+", iif(r.log_gone, 0, "+recordBytes+") FROM sandbox_runs r WHERE r.id = ? "+
		"ON CONFLICT (user_id) DO UPDATE SET artifact_bytes = artifact_bytes + excluded.artifact_bytes, log_bytes = log_bytes + excluded.log_bytes, "+
		"record_bytes = record_bytes + excluded.record_bytes, recent_record_bytes = recent_record_bytes + excluded.recent_record_bytes",
		row.artifactBytes, row.logBytes, row.id)
	if err != nil || row.charged == (store.Charge{}) {
		return err
	}
	_, err = t.exec("INSERT INTO sandbox_usage_daily (user_id, day, cpu_seconds, egress_bytes) SELECT user_id, ?, ?, ? FROM sandbox_runs WHERE id = ? "+ontoDay,
		row.day, row.charged.CPUSeconds, row.charged.EgressBytes, row.id)
	return err
}

// ontoDay adds to the usage of an existing day.
const ontoDay = "ON CONFLICT (user_id, day) DO UPDATE SET cpu_seconds = cpu_seconds + excluded.cpu_seconds, egress_bytes = egress_bytes + excluded.egress_bytes"

// Swept marks runs as having no bytes left.
func (q runs) Swept(ctx context.Context, ids ...string) error {
	return q.releaseEach(ctx, ids, "UPDATE sandbox_runs SET log_gone = 1, artifacts_gone = 1, log = NULL WHERE id = ? AND finished_at IS NOT NULL")
}

// Delete deletes runs.
func (q runs) Delete(ctx context.Context, ids ...string) error {
	return q.releaseEach(ctx, ids, "UPDATE sandbox_usage SET record_bytes = max(0, record_bytes - ("+recordBytes+")) FROM sandbox_runs r "+
		"WHERE r.id = ? AND r.finished_at IS NOT NULL AND sandbox_usage.user_id = r.user_id", "DELETE FROM sandbox_runs WHERE id = ?")
}

// releaseEach subtracts the runs' bytes from their owners' usage, then executes the statements for each run and reclaims the free pages.
func (q runs) releaseEach(ctx context.Context, ids []string, statements ...string) error {
	if len(ids) == 0 {
		return ctx.Err()
	}
	ids = append([]string{}, ids...)
	err := q.s.writer.do(ctx, write{do: func(t *tx) error {
		for _, id := range ids {
			_, err := t.exec("UPDATE sandbox_usage SET "+
				"artifact_bytes = max(0, sandbox_usage.artifact_bytes - iif(r.artifacts_gone, 0, r.artifact_bytes)), "+
				"log_bytes = max(0, sandbox_usage.log_bytes - iif(r.log_gone, 0, r.log_bytes)), "+
				"recent_record_bytes = max(0, recent_record_bytes - iif(r.log_gone, 0, "+recordBytes+")) FROM sandbox_runs r "+
				"WHERE r.id = ? AND r.finished_at IS NOT NULL AND r.artifacts_gone + r.log_gone < 2 AND sandbox_usage.user_id = r.user_id", id)
			if err != nil {
				return err
			}
			for _, statement := range statements {
				if _, err := t.exec(statement, id); err != nil {
					return err
				}
			}
		}
		return nil
	}})
	if err == nil {
		q.s.reclaim(ctx)
	}
	return err
}
