package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/belljar/belljar/internal/store"
)

// maxGroup is the largest number of writes in one transaction. It bounds how long the first of them waits.
const maxGroup = 128

// write is one atomic change.
type write struct {
	durable bool            // it must survive a power failure
	do      func(*tx) error // runs in the writer's goroutine, while the caller waits; twice if another write of the group fails
}

// pending is a queued write with its reply channel.
type pending struct {
	write
	ctx  context.Context
	done chan error // buffered: the writer never waits for a caller
}

// writer executes all writes, one group after the other.
type writer struct {
	path    string
	ops     chan *pending // unbuffered: the writer answers every write that it has received
	quit    chan struct{}
	stopped chan struct{}
	once    sync.Once
	damage  atomic.Pointer[error] // of the file, once it is found

	tx   *tx
	sync string // the connection's PRAGMA synchronous; "" when unknown
}

func newWriter(conn *sql.Conn, path string) *writer {
	w := &writer{
		path:    path,
		ops:     make(chan *pending),
		quit:    make(chan struct{}),
		stopped: make(chan struct{}),
		tx:      &tx{conn: conn, stmts: map[string]*sql.Stmt{}},
	}
	go w.run()
	return w
}

// do executes a write and returns when it is committed. If ctx ends before the write has begun, the write does not happen. do waits for a
// write that has begun: otherwise the caller might skip a step that must follow it.
func (w *writer) do(ctx context.Context, op write) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p := &pending{write: op, ctx: ctx, done: make(chan error, 1)}
	select {
	case w.ops <- p:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.stopped:
		return store.ErrClosed
	}
	return <-p.done
}

// close ends the writer after the queued writes. It may be called twice.
func (w *writer) close() error {
	w.once.Do(func() { close(w.quit) })
	<-w.stopped
	return w.tx.close()
}

func (w *writer) run() {
	defer close(w.stopped)
	var group []*pending
	for quitting := false; ; {
		group = group[:0]
		if !quitting {
			select {
			case p := <-w.ops:
				group = append(group, p)
			case <-w.quit:
				quitting = true
			}
		}
		group = w.gather(group)
		if len(group) == 0 {
			return
		}
		w.commit(group)
		clear(group)
	}
}

// gather adds the queued writes to the group without waiting for more.
func (w *writer) gather(group []*pending) []*pending {
	for len(group) < maxGroup {
		select {
		case p := <-w.ops:
			group = append(group, p)
		default:
			return group
		}
	}
	return group
}

// commit executes a group of writes in one transaction and reports each result. A failed write does not affect the
// others. If the transaction itself fails, nothing is stored and every write returns that error.
func (w *writer) commit(group []*pending) {
	results := make([]error, len(group))
	if err := w.transaction(group, results); err != nil {
		err = w.mapError(err)
		for i := range results {
			results[i] = err
		}
	}
	for i, p := range group {
		p.done <- results[i]
	}
}

func (w *writer) transaction(group []*pending, results []error) (err error) {
	level := "NORMAL"
	for _, p := range group {
		if p.durable {
			level = "FULL"
		}
	}
	if w.sync != level {
		w.sync = ""
		if _, err := w.tx.exec("PRAGMA synchronous = " + level); err != nil {
			return err
		}
		w.sync = level
	}
	if _, err := w.tx.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	committed := false
	defer func() {
		if !committed {
			w.tx.exec("ROLLBACK") // fails if SQLite has already rolled back
		}
	}()
	if whole, err := w.each(group, results, w.direct); err != nil {
		return err
	} else if !whole {
		// One write failed. Repeat the group with a savepoint for each write, so that only that one fails.
		if _, err := w.tx.exec("ROLLBACK"); err != nil {
			return err
		}
		if _, err := w.tx.exec("BEGIN IMMEDIATE"); err != nil {
			return err
		}
		if _, err := w.each(group, results, w.isolated); err != nil {
			return err
		}
	}
	if _, err := w.tx.exec("COMMIT"); err != nil {
		return err
	}
	committed = true
	return nil
}

// each executes every write of a group with execute, and reports whether all succeeded.
func (w *writer) each(group []*pending, results []error, execute func(*pending) (result, err error)) (whole bool, err error) {
	whole = true
	for i, p := range group {
		if results[i] = p.ctx.Err(); results[i] != nil {
			continue // the caller's context has ended
		}
		if results[i], err = execute(p); err != nil {
			return false, err
		}
		whole = whole && results[i] == nil
	}
	return whole, nil
}

// direct executes a write without a savepoint: if it fails, the transaction must be rolled back.
func (w *writer) direct(p *pending) (result, err error) {
	result = w.guard(p)
	if endsTransaction(result) {
		return nil, result
	}
	return result, nil
}

// isolated executes a write in a savepoint, so that it can fail alone. result is the error of the write, err that of
// the transaction.
func (w *writer) isolated(p *pending) (result, err error) {
	if _, err := w.tx.exec("SAVEPOINT one"); err != nil {
		return nil, err
	}
	result = w.guard(p)
	if endsTransaction(result) {
		return nil, result
	}
	if result != nil {
		if _, err := w.tx.exec("ROLLBACK TO one"); err != nil {
			return nil, err
		}
	}
	if _, err := w.tx.exec("RELEASE one"); err != nil {
		return nil, err
	}
	return w.mapError(result), nil
}

// guard turns a panic in one write into an error, so that the others are not lost.
func (w *writer) guard(p *pending) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("write to %s panicked: %v", w.path, r)
		}
	}()
	return p.do(w.tx)
}

// tx is the open transaction. Its statements are compiled once.
type tx struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

// exec executes a statement and returns the number of changed rows. No context interrupts it.
func (t *tx) exec(query string, args ...any) (int64, error) {
	stmt, err := t.stmt(query)
	if err != nil {
		return 0, err
	}
	result, err := stmt.Exec(args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (t *tx) row(query string, args ...any) scanner {
	stmt, err := t.stmt(query)
	if err != nil {
		return failedRow{err}
	}
	return stmt.QueryRow(args...)
}

func (t *tx) stmt(query string) (*sql.Stmt, error) {
	if stmt := t.stmts[query]; stmt != nil {
		return stmt, nil
	}
	stmt, err := t.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	t.stmts[query] = stmt
	return stmt, nil
}

func (t *tx) close() error {
	var errs []error
	for _, stmt := range t.stmts {
		errs = append(errs, stmt.Close())
	}
	clear(t.stmts)
	if err := t.conn.Close(); !errors.Is(err, sql.ErrConnDone) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// scanner is a *sql.Row or *sql.Rows.
type scanner interface {
	Scan(dest ...any) error
}

// failedRow is the row of a query that failed.
type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }
