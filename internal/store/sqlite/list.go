package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// few is the largest number of runs that are sorted or skipped one by one rather than read in the order of an index.
const few = 2000

// listing builds the statements that read a list. The best index depends on the filters and on how many rows match.
// SQLite misjudges the number of matches, so every statement names its index.
type listing struct {
	where []string
	args  []any
	keys  []string // columns of the filters: compared with one value, except the bounds of "started_at" and "finished_at", and "search"
	part  string   // search text, in lower case
	live  bool     // the phase is one of runs that have not ended

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
	l.live = q.Phase != "" && !q.Phase.Terminal()
	for _, f := range []struct{ key, value string }{
		{"user_id", q.UserID}, {"session_id", q.SessionID}, {"phase", string(q.Phase)}, {"runtime", q.Runtime},
		{"base_image", q.BaseImage}, {"image_digest", q.ImageDigest},
	} {
		if f.value != "" {
			l.filter(f.key, f.key+" = ?", f.value)
		}
	}
	if !q.StartedFrom.IsZero() {
		l.filter("started_at", "started_at >= ?", timeText(q.StartedFrom))
	}
	if !q.StartedTo.IsZero() {
		l.filter("started_at", "started_at <= ?", timeText(q.StartedTo))
	}
	if !q.FinishedFrom.IsZero() {
		l.filter("finished_at", "finished_at >= ?", timeText(q.FinishedFrom))
	}
	if !q.FinishedTo.IsZero() {
		l.filter("finished_at", "finished_at <= ?", timeText(q.FinishedTo))
	}
	if q.Q != "" {
		part := asciiLower(q.Q)
		l.part = part
		l.filter("search", "instr(search, ?) > 0", part)
		if strings.Contains(part, "\n") { // search joins the image and the message with a newline
			l.filter("search", "(instr(substr(search, 1, length(base_image)), ?) > 0 OR instr(substr(search, length(base_image) + 2), ?) > 0)", part, part)
		}
	}
	return l, nil
}

func (l *listing) filter(key, condition string, args ...any) {
	if !slices.Contains(l.keys, key) {
		l.keys = append(l.keys, key)
	}
	l.where = append(l.where, condition)
	l.args = append(l.args, args...)
}

// exactIndex returns the index in which this list's rows are one contiguous range, so that counting is cheap; "" if
// there is none.
func (l *listing) exactIndex() string {
	switch strings.Join(l.keys, " ") {
	case "user_id":
		return "idx_runs_user"
	case "session_id", "user_id session_id":
		return "idx_runs_session_id"
	case "phase", "runtime", "base_image", "image_digest", "started_at", "finished_at":
		return "idx_runs_" + l.keys[0]
	}
	return ""
}

// orderedIndex returns the index that has this list's rows in this list's order, with few others between them; "" if
// there is none.
func (l *listing) orderedIndex() string {
	switch l.by + ": " + strings.Join(l.keys, " ") {
	case "created_at: ":
		return "idx_runs_list"
	case "created_at: user_id":
		return "idx_runs_user"
	case "created_at: session_id", "created_at: user_id session_id":
		return "idx_runs_session_id"
	case "started_at: ", "started_at: started_at", "finished_at: ", "finished_at: finished_at":
		return "idx_runs_" + l.by
	}
	return ""
}

// coveringIndex returns the index to scan in full if there is no better one: it has every column that a list can filter
// or sort by. Runs that have not ended are few, so it is then the index of phases.
func (l *listing) coveringIndex() string {
	if l.live {
		return "idx_runs_phase"
	}
	if slices.Contains(l.keys, "user_id") {
		return "idx_runs_user"
	}
	return "idx_runs_list"
}

// count returns the statement that counts the list.
func (l *listing) count() string {
	from := "sandbox_runs"
	if index := l.exactIndex(); index != "" {
		from += " INDEXED BY " + index
	} else if len(l.where) > 0 {
		from += " INDEXED BY " + l.coveringIndex()
	}
	return "SELECT count(*) FROM " + from + l.condition()
}

// page returns the statement that reads a page by an index. It selects row ids from the index alone, then reads the
// rows.
func (l *listing) page(index string) string {
	return l.rows("SELECT rowid AS n, " + l.by + " FROM sandbox_runs INDEXED BY " + index + l.condition())
}

// front returns the statement that looks for a page among the first few rows of the table in the order of the list.
func (l *listing) front() string {
	columns := append([]string{"rowid AS n", l.by}, l.columns()...)
	return l.rows("SELECT n, " + l.by + " FROM (SELECT " + strings.Join(columns, ", ") + " FROM sandbox_runs INDEXED BY idx_runs_" + l.by +
		" ORDER BY " + l.order(l.by, "rowid") + fmt.Sprintf(" LIMIT %d)", few) + l.condition())
}

// enough returns how many rows a walk by creation gathers: the page and some more, so that a list that is little longer
// needs no separate count.
func (l *listing) enough() int { return l.offset + l.limit + few }

// walk returns the statement that gathers rows by creation and reads a page of them. Its last column is the number of
// gathered rows.
func (l *listing) walk() string {
	return "WITH w AS MATERIALIZED (SELECT rowid AS n, created_at FROM sandbox_runs INDEXED BY " + l.coveringIndex() + l.condition() +
		" ORDER BY " + l.order("created_at", "rowid") + fmt.Sprintf(" LIMIT %d) ", l.enough()) +
		strings.Replace(l.rows("SELECT n, created_at FROM w"), runColumns, runColumns+", (SELECT count(*) FROM w)", 1)
}

// scan returns the statement that sorts all matching rows and reads a page. It reads them by creation: that is nearly
// the order of the other times, so the sort replaces few rows of its top list.
func (l *listing) scan() string {
	return l.rows("SELECT n, " + l.by + " FROM (SELECT rowid AS n, " + l.by + " FROM sandbox_runs INDEXED BY " + l.coveringIndex() + l.condition() +
		" ORDER BY " + l.order("created_at", "rowid") + " LIMIT -1)")
}

// rows returns the statement that reads one page of the rows whose ids the subquery which selects as n.
func (l *listing) rows(which string) string {
	return "SELECT " + runColumns + " FROM (" + which + " ORDER BY " + l.order(l.by, "n") + " LIMIT ? OFFSET ?) AS p " +
		"CROSS JOIN sandbox_runs AS r ON r.rowid = p.n ORDER BY " + l.order("r."+l.by, "r.rowid")
}

func (l *listing) order(by, n string) string {
	direction := " ASC"
	if l.newest {
		direction = " DESC"
	}
	return by + direction + ", " + n + direction
}

// columns returns the columns that the condition needs, without the sort column.
func (l *listing) columns() []string {
	var columns []string
	for _, key := range append(slices.Clone(l.keys), "base_image") { // the search needs base_image
		if key != l.by && !slices.Contains(columns, key) {
			columns = append(columns, key)
		}
	}
	return columns
}

func (l *listing) condition() string {
	if len(l.where) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(l.where, " AND ")
}

// List returns one page of the matching runs and the number of all matches, from one snapshot.
func (q runs) List(ctx context.Context, query belljar.RunQuery) (page []store.Run, total int, err error) {
	l, err := newListing(query)
	if err != nil {
		return nil, 0, err
	}
	tx, end, err := q.s.beginList(ctx, query.UserID)
	if err != nil {
		return nil, 0, err
	}
	defer end()
	r := listReader{s: q.s, tx: tx, listing: &l}
	page, total, err = r.read(ctx)
	if err != nil {
		return nil, 0, err
	}
	return page, total, nil
}

// listReader reads one list in one transaction.
type listReader struct {
	*listing
	s  *Store
	tx *sql.Tx
}

func (r *listReader) read(ctx context.Context) (page []store.Run, total int, err error) {
	exact := r.exactIndex()
	if exact == "" && len(r.where) > 0 {
		return r.readFirst(ctx)
	}
	// Counting is cheap here, and the count decides how to read the page.
	if total, err = r.total(ctx); err != nil || total <= r.offset {
		return nil, total, err
	}
	want := min(r.limit, total-r.offset)
	switch index := r.orderedIndex(); {
	case index != "" && r.offset > total/2:
		page, err = r.fromTheEnd(ctx, index, total, want)
	case index != "":
		page, _, err = r.pageBy(ctx, r.page(index))
	case total <= few:
		page, _, err = r.pageBy(ctx, r.page(exact))
	default:
		page, _, err = r.find(ctx, want)
	}
	return page, total, err
}

// readFirst reads the page before it counts, for a list that is expensive to count. A page that is not full is the last
// one, so the count is then known.
func (r *listReader) readFirst(ctx context.Context) (page []store.Run, total int, err error) {
	if strings.Join(r.keys, " ") == "search" {
		if page, total, ok, err := r.search(ctx); ok || err != nil {
			return page, total, err
		}
	}
	gathered, seen := -1, 0
	if r.by == "created_at" {
		page, seen, err = r.pageBy(ctx, r.walk(), &gathered)
	} else {
		page, seen, err = r.find(ctx, r.limit)
	}
	switch {
	case err != nil:
		return nil, 0, err
	case seen < r.limit && (seen > 0 || r.offset == 0):
		return page, r.offset + seen, nil
	case seen > 0 && gathered >= 0 && gathered < r.enough():
		return page, gathered, nil
	}
	total, err = r.total(ctx)
	return page, total, err
}

// find reads a page that no index has in order. The page has want rows if there are that many.
func (r *listReader) find(ctx context.Context, want int) (page []store.Run, seen int, err error) {
	if r.by == "created_at" {
		return r.pageBy(ctx, r.page(r.coveringIndex()))
	}
	if r.offset+r.limit <= few {
		if page, seen, err = r.pageBy(ctx, r.front()); err != nil || seen == want {
			return page, seen, err
		}
	}
	return r.pageBy(ctx, r.scan())
}

// fromTheEnd reads a page near the end of the list in reverse, so that SQLite skips fewer rows.
func (r *listReader) fromTheEnd(ctx context.Context, index string, total, want int) ([]store.Run, error) {
	back := *r.listing
	back.newest, back.limit, back.offset = !r.newest, want, total-r.offset-want
	reader := listReader{listing: &back, s: r.s, tx: r.tx}
	page, _, err := reader.pageBy(ctx, back.page(index))
	slices.Reverse(page)
	return page, err
}

func (r *listReader) total(ctx context.Context) (n int, err error) {
	if err := r.tx.QueryRowContext(ctx, r.count(), r.args...).Scan(&n); err != nil {
		return 0, r.s.failed(ctx, err)
	}
	return n, nil
}

// pageBy returns a page and its number of rows, including corrupt ones. It scans extra columns into more.
func (r *listReader) pageBy(ctx context.Context, query string, more ...any) (page []store.Run, seen int, err error) {
	rows, err := r.tx.QueryContext(ctx, query, append(slices.Clone(r.args), r.limit, r.offset)...)
	page, err = collect(ctx, r.s, rows, err, func(row scanner) (store.Run, error) {
		seen++
		return scanRun(row, more...)
	})
	return page, seen, err
}

// asciiLower works like SQLite's lower: it changes ASCII letters only.
func asciiLower(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' {
			return c + ('a' - 'A')
		}
		return c
	}, s)
}
