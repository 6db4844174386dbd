package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// few is how many runs are sorted rather than looked for in an order that an index has.
const few = 1000

// listing is how a list is read. Which index is right depends on the filters, and SQLite, which knows nothing of how
// many rows have a value, guesses wrong: so each statement names its index.
type listing struct {
	where []string
	args  []any
	equal []string // columns with one value
	times bool     // bounds on a time
	text  bool     // a search

	by     string // created_at | started_at | finished_at
	newest bool   // first
	limit  int
	offset int
}

func newListing(q belljar.RunQuery) (l listing, err error) {
	if l.by, l.newest, err = store.Order(q.Sort); err != nil {
		return l, err
	}
	l.limit, l.offset = store.Page(q.Limit, q.Offset)
	for _, f := range []struct{ column, value string }{
		{"user_id", q.UserID}, {"session_id", q.SessionID}, {"phase", string(q.Phase)}, {"runtime", q.Runtime},
		{"base_image", q.BaseImage}, {"image_digest", q.ImageDigest},
	} {
		if f.value != "" {
			l.equal = append(l.equal, f.column)
			l.filter(f.column+" = ?", f.value)
		}
	}
	if !q.StartedFrom.IsZero() {
		l.bound("started_at >= ?", timeText(q.StartedFrom))
	}
	if !q.StartedTo.IsZero() {
		l.bound("started_at <= ?", timeText(q.StartedTo))
	}
	if !q.FinishedFrom.IsZero() {
		l.bound("finished_at >= ?", timeText(q.FinishedFrom))
	}
	if !q.FinishedTo.IsZero() {
		l.bound("finished_at <= ?", timeText(q.FinishedTo))
	}
	if q.Q != "" {
		l.text = true
		part := asciiLower(q.Q)
		l.filter("instr(search, ?) > 0", part)
		if strings.Contains(part, "\n") { // which also stands between the two texts
			l.filter("(instr(lower(base_image), ?) > 0 OR instr(lower(message), ?) > 0)", part, part)
		}
	}
	return l, nil
}

func (l *listing) filter(sql string, args ...any) {
	l.where = append(l.where, sql)
	l.args = append(l.args, args...)
}

func (l *listing) bound(sql, value string) {
	l.times = true
	l.filter(sql, value)
}

// narrow is the index that holds exactly the rows of this list side by side; "" if there is none.
func (l *listing) narrow() string {
	if l.times || l.text {
		return ""
	}
	switch strings.Join(l.equal, " ") {
	case "user_id":
		return "idx_runs_user_created_at"
	case "user_id phase":
		return "idx_runs_user_phase"
	case "session_id", "user_id session_id":
		return "idx_runs_session_id"
	case "phase", "runtime", "base_image", "image_digest":
		return "idx_runs_" + l.equal[0]
	}
	return ""
}

// ordered is the index that has this list's rows in this list's order, with few others between them; "" if there is
// none. idx_runs_list has all lists by creation, but others' rows between.
func (l *listing) ordered() string {
	if l.times || l.text {
		return ""
	}
	switch strings.Join(append([]string{l.by}, l.equal...), " ") {
	case "created_at":
		return "idx_runs_list"
	case "created_at user_id":
		return "idx_runs_user_created_at"
	case "created_at session_id", "created_at user_id session_id":
		return "idx_runs_session_id"
	case "started_at", "finished_at":
		return "idx_runs_" + l.by
	case "started_at user_id":
		return "idx_runs_user_started_at"
	}
	return ""
}

// count is the statement that counts the list.
func (l *listing) count() string {
	from := "sandbox_runs"
	if index := l.narrow(); index != "" {
		from += " INDEXED BY " + index
	} else if len(l.where) > 0 {
		from += " INDEXED BY idx_runs_list"
	}
	return "SELECT count(*) FROM " + from + l.condition()
}

// page is the statement that reads a page by an index: first which rows, from the index alone, then the rows.
func (l *listing) page(index string) string {
	direction := "ASC"
	if l.newest {
		direction = "DESC"
	}
	order := fmt.Sprintf("%s %s, rowid %s", l.by, direction, direction)
	return "SELECT " + runColumns + " FROM (SELECT rowid AS n FROM sandbox_runs INDEXED BY " + index + l.condition() +
		" ORDER BY " + order + " LIMIT ? OFFSET ?) AS p CROSS JOIN sandbox_runs AS r ON r.rowid = p.n" +
		fmt.Sprintf(" ORDER BY r.%s %s, r.rowid %s", l.by, direction, direction)
}

func (l *listing) condition() string {
	if len(l.where) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(l.where, " AND ")
}

// List returns one page of the runs selected and how many there are in all, both of one moment.
func (q runs) List(ctx context.Context, query belljar.RunQuery) (page []store.Run, total int, err error) {
	l, err := newListing(query)
	if err != nil {
		return nil, 0, err
	}
	tx, err := q.s.readDB.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, 0, q.s.failed(ctx, err)
	}
	defer tx.Rollback()

	index := l.ordered()
	if index == "" {
		index = "idx_runs_list"
	}
	if narrow := l.narrow(); narrow != "" {
		// Counting is cheap here, and tells whether sorting is.
		if total, err = q.count(ctx, tx, &l); err != nil || total <= l.offset {
			return nil, total, err
		}
		if total <= few && l.ordered() == "" {
			index = narrow
		}
		page, _, err = q.page(ctx, tx, &l, index)
		return page, total, err
	}
	// A page that is not full is the last: then there is nothing to count.
	page, seen, err := q.page(ctx, tx, &l, index)
	if err != nil {
		return nil, 0, err
	}
	if seen < l.limit && (seen > 0 || l.offset == 0) {
		return page, l.offset + seen, nil
	}
	total, err = q.count(ctx, tx, &l)
	return page, total, err
}

func (q runs) count(ctx context.Context, tx *sql.Tx, l *listing) (n int, err error) {
	if err := tx.QueryRowContext(ctx, l.count(), l.args...).Scan(&n); err != nil {
		return 0, q.s.failed(ctx, err)
	}
	return n, nil
}

// page returns a page and how many rows it had, corrupt ones too.
func (q runs) page(ctx context.Context, tx *sql.Tx, l *listing, index string) (page []store.Run, seen int, err error) {
	rows, err := tx.QueryContext(ctx, l.page(index), append(append([]any{}, l.args...), l.limit, l.offset)...)
	page, err = collect(ctx, q.s, rows, err, func(row scanner) (store.Run, error) {
		seen++
		return scanRun(row)
	})
	return page, seen, err
}

// asciiLower does to a text what SQLite's lower does.
func asciiLower(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' {
			return c + ('a' - 'A')
		}
		return c
	}, s)
}
