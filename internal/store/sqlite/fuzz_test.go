package sqlite

import (
	"database/sql"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// textRow is a row with the values of a damaged table.
type textRow map[int]string

func (r textRow) Scan(dest ...any) error {
	for i, to := range dest {
		text, ok := r[i]
		switch to := to.(type) {
		case *string:
			*to = text
		case *sql.NullString:
			*to = sql.NullString{String: text, Valid: ok && text != ""}
		case *[]byte:
			if text != "" {
				*to = []byte(text)
			}
		}
	}
	return nil
}

// FuzzRun checks that every row is either a run or corrupt, and that a run that was read can be written and read again.
func FuzzRun(f *testing.F) {
	f.Add("queued", "2026-03-01T12:00:00.000001Z", "", "", "{}", "", "")
	f.Add("completed", "2026-03-01T12:00:00.000001Z", "2026-03-01T12:00:00.000002Z", "2026-03-01T12:00:00.000003Z", `{"labels":{"a":"b"},"resource_usage":{"cpu_time_sec":1}}`, "", `[{"path":"a"}]`)
	f.Add("running", "2026-03-01T12:00:00.000001Z", "x", "", `{"id":1}`, `{"command":["a"]}`, "null")
	f.Fuzz(func(t *testing.T, phase, created, started, finished, detail, spec, artifacts string) {
		r, err := scanWholeRun(textRow{0: "id", 7: phase, 9: started, 10: finished, 13: created, 22: detail, 23: spec, 24: artifacts})
		if err != nil {
			if !errors.Is(err, store.ErrCorrupt) {
				t.Fatalf("error %v, want corrupt", err)
			}
			return
		}
		if _, err := r.ArtifactList(); err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("artifacts: error %v, want corrupt", err)
		}
		row, err := encodeRun(&r)
		if err != nil {
			t.Fatalf("cannot be written: %v", err)
		}
		text := func(v any) string { s, _ := v.(string); return s }
		again, err := scanWholeRun(textRow{0: row.id, 7: text(row.state[0]), 9: text(row.state[2]), 10: text(row.finished), 13: row.created,
			22: text(row.state[len(row.state)-1]), 23: text(row.spec), 24: text(row.left)})
		if err != nil || again.Phase != r.Phase || !again.CreatedAt.Equal(r.CreatedAt) || !reflect.DeepEqual(again.Artifacts, r.Artifacts) || !reflect.DeepEqual(again.Labels, r.Labels) {
			t.Errorf("read %+v, then %+v, error %v", r, again, err)
		}
	})
}

// FuzzOlderRun checks that every line of such a file is either an ended run or corrupt.
func FuzzOlderRun(f *testing.F) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Add(olderLine(f, store.Run{Run: belljar.Run{ID: "a", Phase: belljar.PhaseFailed, CreatedAt: at, FinishedAt: &at}, Log: []byte("x")}))
	f.Add([]byte("00000000 \n"))
	f.Add([]byte("a2be7e3c {}\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		row, err := olderRun(line)
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("error %v, want corrupt", err)
		}
		if err == nil && (row.id == "" || row.finished == nil) {
			t.Errorf("%+v", row)
		}
	})
}
