package sqlite

import (
	"context"
	"database/sql"
	"sync"
)

// listers is how many lists are read at the same time. They have connections of their own: a list may read many thousand rows, and
// authentication must not wait for it.
const listers = 4

// listersOf is how many lists of one user are read at the same time. Others of this user wait, and those of other users pass.
const listersOf = listers / 2

// turns are the lists that are read, or wait, by user. The zero value is empty.
type turns struct {
	mu sync.Mutex
	of map[string]*turn
}

type turn struct {
	slots chan struct{}
	lists int // that read or wait
}

// take waits until another list of a user may be read.
func (t *turns) take(ctx context.Context, user string) (give func(), err error) {
	t.mu.Lock()
	x := t.of[user]
	if x == nil {
		if t.of == nil {
			t.of = map[string]*turn{}
		}
		x = &turn{slots: make(chan struct{}, listersOf)}
		t.of[user] = x
	}
	x.lists++
	t.mu.Unlock()
	select {
	case x.slots <- struct{}{}:
		return func() {
			<-x.slots
			t.leave(user, x)
		}, nil
	case <-ctx.Done():
		t.leave(user, x)
		return nil, ctx.Err()
	}
}

func (t *turns) leave(user string, x *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x.lists--; x.lists == 0 {
		delete(t.of, user)
	}
}

// beginList begins a transaction that reads a list of a user, "" for all users. Call end after it.
func (s *Store) beginList(ctx context.Context, user string) (tx *sql.Tx, end func(), err error) {
	give, err := s.turns.take(ctx, user)
	if err != nil {
		return nil, nil, err
	}
	tx, err = s.listDB.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		give()
		return nil, nil, s.failed(ctx, err)
	}
	return tx, func() {
		tx.Rollback()
		give()
	}, nil
}

// list reads a list of a user by one statement.
func list[T any](ctx context.Context, s *Store, user string, scan func(scanner) (T, error), statement string, args ...any) ([]T, error) {
	tx, end, err := s.beginList(ctx, user)
	if err != nil {
		return nil, err
	}
	defer end()
	rows, err := tx.QueryContext(ctx, statement, args...)
	return collect(ctx, s, rows, err, scan)
}
