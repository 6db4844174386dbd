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

// few is how many runs are sorted, or passed over one by one, rather than looked for in an order that an index has.
const few = 2000

// listing is how a list is read. Which index is right depends on the filters and on how many rows have a value. SQLite
// does not know the latter and guesses wrong, so every statement names its index.
type listing struct {
	where []string
	args  []any
	keys  []string // what is filtered by: a column with one value, "started_at" or "finished_at" for bounds, "search"
	part  string   // what is searched for, in lower case

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
		if strings.Contains(part, "\n") { // which also stands between the two texts
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

// narrow is the index that holds the rows of this list and no others side by side; "" if there is none. With it,
// counting is cheap.
func (l *listing) narrow() string {
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

// ordered is the index that has this list's rows in this list's order, with few others between them; "" if there is
// none.
func (l *listing) ordered() string {
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

// wide is the index to read from end to end when there is no better: it holds all that a list can go by.
func (l *listing) wide() string {
	if slices.Contains(l.keys, "user_id") {
		return "idx_runs_user"
	}
	return "idx_runs_list"
}

// count is the statement that counts the list.
func (l *listing) count() string {
	from := "sandbox_runs"
	if index := l.narrow(); index != "" {
		from += " INDEXED BY " + index
	} else if len(l.where) > 0 {
		from += " INDEXED BY " + l.wide()
	}
	return "SELECT count(*) FROM " + from + l.condition()
}

// page is the statement that reads a page by an index: first which rows, from the index alone, then the rows.
func (l *listing) page(index string) string {
	return l.rows("SELECT rowid AS n, " + l.by + " FROM sandbox_runs INDEXED BY " + index + l.condition())
}

// front is the statement that looks for a page among the first few rows of all in the order of the list.
func (l *listing) front() string {
	columns := append([]string{"rowid AS n", l.by}, l.columns()...)
	return l.rows("SELECT n, " + l.by + " FROM (SELECT " + strings.Join(columns, ", ") + " FROM sandbox_runs INDEXED BY idx_runs_" + l.by +
		" ORDER BY " + l.order(l.by, "rowid") + fmt.Sprintf(" LIMIT %d)", few) + l.condition())
}

// enough is how many rows a walk by creation gathers: the page's, and so many more that a list which is not much longer
// is counted on the way.
func (l *listing) enough() int { return l.offset + l.limit + few }

// walk is the statement that gathers rows by creation and reads a page of them. Its last column is how many it gathered.
func (l *listing) walk() string {
	return "WITH w AS MATERIALIZED (SELECT rowid AS n, created_at FROM sandbox_runs INDEXED BY " + l.wide() + l.condition() +
		" ORDER BY " + l.order("created_at", "rowid") + fmt.Sprintf(" LIMIT %d) ", l.enough()) +
		strings.Replace(l.rows("SELECT n, created_at FROM w"), runColumns, runColumns+", (SELECT count(*) FROM w)", 1)
}

// scan is the statement that sorts a page out of all rows. It goes by creation: a list by another time is nearly in that
// order, and so what is sorted in is mostly what stays.
func (l *listing) scan() string {
	return l.rows("SELECT n, " + l.by + " FROM (SELECT rowid AS n, " + l.by + " FROM sandbox_runs INDEXED BY " + l.wide() + l.condition() +
		" ORDER BY " + l.order("created_at", "rowid") + " LIMIT -1)")
}

// rows is the statement that reads one page of the rows that which names by n.
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

// columns are those that the condition needs, without the one that the list is sorted by.
func (l *listing) columns() []string {
	var columns []string
	for _, key := range append(slices.Clone(l.keys), "base_image") { // the search needs that
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
	narrow := r.narrow()
	if narrow == "" && len(r.where) > 0 {
		return r.readFirst(ctx)
	}
	// Counting is cheap, and tells what else is.
	if total, err = r.total(ctx); err != nil || total <= r.offset {
		return nil, total, err
	}
	want := min(r.limit, total-r.offset)
	switch index := r.ordered(); {
	case index != "" && r.offset > total/2:
		page, err = r.fromTheEnd(ctx, index, total, want)
	case index != "":
		page, _, err = r.pageBy(ctx, r.page(index))
	case total <= few:
		page, _, err = r.pageBy(ctx, r.page(narrow))
	default:
		page, _, err = r.find(ctx, want)
	}
	return page, total, err
}

// readFirst reads a list that is not cheap to count: a page that is not full is the last, and then the count is known.
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

// find looks for a page of rows that no index has in order. It has want rows if there are that many.
func (r *listReader) find(ctx context.Context, want int) (page []store.Run, seen int, err error) {
	if r.by == "created_at" {
		return r.pageBy(ctx, r.page(r.wide()))
	}
	if r.offset+r.limit <= few {
		if page, seen, err = r.pageBy(ctx, r.front()); err != nil || seen == want {
			return page, seen, err
		}
	}
	return r.pageBy(ctx, r.scan())
}

// fromTheEnd reads a page that is nearer to the list's end by counting from there.
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

// pageBy returns a page and how many rows it had, corrupt ones too. More
// columns go to more.
func (r *listReader) pageBy(ctx context.Context, query string, more ...any) (page []store.Run, seen int, err error) {
	rows, err := r.tx.QueryContext(ctx, query, append(slices.Clone(r.args), r.limit, r.offset)...)
	page, err = collect(ctx, r.s, rows, err, func(row scanner) (store.Run, error) {
		seen++
		return scanRun(row, more...)
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
