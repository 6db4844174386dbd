package sqlite

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/test/tier"
)

// TestPlans checks that every list, for all filters and sorts, is read from an index: no statement scans the table or makes SQLite
// build a temporary index.
func TestPlans(t *testing.T) {
	t.Parallel()
	s := opened(t)
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	filters := []func(*belljar.RunQuery){
		func(q *belljar.RunQuery) { q.UserID = "ann" },
		func(q *belljar.RunQuery) { q.SessionID = "s" },
		func(q *belljar.RunQuery) { q.Phase = belljar.PhaseFailed },
		func(q *belljar.RunQuery) { q.Phase = belljar.PhaseRunning },
		func(q *belljar.RunQuery) { q.Runtime = "native" },
		func(q *belljar.RunQuery) { q.BaseImage = "host" },
		func(q *belljar.RunQuery) { q.ImageDigest = "sha256:0" },
		func(q *belljar.RunQuery) { q.StartedFrom, q.StartedTo = at, at },
		func(q *belljar.RunQuery) { q.FinishedFrom, q.FinishedTo = at, at },
		func(q *belljar.RunQuery) { q.Q = "word" },
	}
	used, seen := map[string]bool{}, map[string]bool{}
	most := tier.Pick(2, len(filters)) // of a statement's filters, or else all
	for chosen := range 1 << len(filters) {
		if n := bits.OnesCount(uint(chosen)); n > most && n < len(filters) {
			continue
		}
		for _, by := range []string{"created_at", "started_at", "finished_at"} {
			q := belljar.RunQuery{Sort: by + ":desc"}
			for i, filter := range filters {
				if chosen>>i&1 == 1 {
					filter(&q)
				}
			}
			l, err := newListing(q)
			if err != nil {
				t.Fatal(err)
			}
			statements := map[string]bool{l.count(): false, l.page(l.coveringIndex()): true}
			for _, index := range []string{l.exactIndex(), l.orderedIndex()} {
				if index != "" {
					statements[l.page(index)] = true
				}
			}
			if by == "created_at" {
				statements[l.walk()] = true
			} else {
				statements[l.front()], statements[l.scan()] = true, true
			}
			for statement, paged := range statements {
				if seen[statement] {
					continue
				}
				seen[statement] = true
				args := l.args
				if paged {
					args = append(args[:len(args):len(args)], l.limit, l.offset)
				}
				explained(t, s, used, fmt.Sprintf("%+v", q), statement, args...)
			}
		}
	}
	living, err := newListing(belljar.RunQuery{UserID: "ann", SessionID: "s", Phase: belljar.PhaseRunning})
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{living.count(), living.walk(), living.scan()} {
		if !strings.Contains(statement, "INDEXED BY idx_runs_phase ") {
			t.Errorf("the running runs of a session are read from more than those that run: %s", statement)
		}
	}
	explained(t, s, used, "names of images", imageNames, maxImages+1)
	for _, statement := range []string{"SELECT count(*)" + byImage("(?)"), "SELECT count(*)" + byMessage("(?)")} {
		explained(t, s, used, "search", statement, make([]any, strings.Count(statement, "?"))...)
	}
	explained(t, s, used, "unfinished", unfinished)
	explained(t, s, used, "sweepable bytes", sweepable(true), "2026")
	explained(t, s, used, "sweepable rows", sweepable(false), "2026")

	for _, user := range []string{"", "ann"} {
		for _, all := range []bool{false, true} {
			for _, prefix := range []string{"", "a"} {
				where, args := sessionsOf(user, belljar.SessionQuery{All: all, KeyPrefix: prefix})
				what := fmt.Sprintf("sessions of %q, all %t, prefix %q", user, all, prefix)
				explained(t, s, used, what, "SELECT count(*)"+where, args...)
				explained(t, s, used, what, "SELECT "+sessionColumns+where+newestSessions, append(args, 50, 0)...)
			}
		}
		where, args := snapshotsOf(belljar.SnapshotQuery{UserID: user})
		explained(t, s, used, fmt.Sprintf("snapshots of %q", user), "SELECT count(*)"+where, args...)
		explained(t, s, used, fmt.Sprintf("snapshots of %q", user), "SELECT id, detail"+where+newestSnapshots, append(args, 50, 0)...)
		for _, endpoint := range []string{"", "runs"} {
			statement, args := keysOf(belljar.KeyQuery{UserID: user, Endpoint: endpoint})
			explained(t, s, used, fmt.Sprintf("keys of %q at %q", user, endpoint), statement, append(args, 50, 0)...)
		}
	}
	for _, state := range []belljar.ApprovalState{"", belljar.ApprovalPending} {
		where, args := approvalsOf(belljar.ApprovalQuery{State: state})
		explained(t, s, used, fmt.Sprintf("approvals %s", state), "SELECT count(*)"+where, args...)
		explained(t, s, used, fmt.Sprintf("approvals %s", state), "SELECT id, detail"+where+newestApprovals, append(args, 50, 0)...)
	}
	explained(t, s, used, "another snapshot with the digest", otherOf, "ann", "sha256:0")
	explained(t, s, used, "expired snapshots", expiredSnapshots, "2026")
	explained(t, s, used, "old approvals", deleteApprovals, "2026")
	explained(t, s, used, "unfinished sessions", unfinishedSessions)
	explained(t, s, used, "sessions that ended", deleteEnded, "2026")
	explained(t, s, used, "keys that have expired", deleteKeys, 1, 1)
	explained(t, s, used, "usage of days", deleteDays, "2026")

	names, err := column(s, "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql LIKE 'CREATE INDEX%'")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !used[name] {
			t.Errorf("no query needs the index %s", name)
		}
	}
}

// column returns the last column of a query's rows.
func column(s *Store, statement string, args ...any) (values []string, err error) {
	rows, err := s.readDB.Query(statement, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	row := make([]any, len(columns))
	for i := range row {
		row[i] = new(any)
	}
	value := new(string)
	row[len(row)-1] = value
	for rows.Next() {
		if err := rows.Scan(row...); err != nil {
			return nil, err
		}
		values = append(values, *value)
	}
	return values, rows.Err()
}

// explained checks the query plan of a statement and records the indexes that it uses.
func explained(t *testing.T, s *Store, used map[string]bool, what, statement string, args ...any) {
	t.Helper()
	steps, err := column(s, "EXPLAIN QUERY PLAN "+statement, args...)
	if err != nil {
		t.Errorf("%s: %v: %s", what, err, statement)
	}
	for _, step := range steps {
		if _, index, ok := strings.Cut(step, "INDEX "); ok {
			used[strings.Fields(index)[0]] = true
		} else if strings.Contains(step, "AUTOMATIC") || strings.HasPrefix(step, "SCAN sandbox_") || strings.HasPrefix(step, "SCAN r") {
			t.Errorf("%s: %q reads the whole table: %s", what, step, statement)
		}
	}
}
