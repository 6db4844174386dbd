package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/belljar/belljar/internal/store"
)

type tokens struct{ s *Store }

// Insert stores a key.
func (q tokens) Insert(ctx context.Context, t store.Token) error {
	return q.s.write(ctx, func() error { return q.insert(t) })
}

// insert stores a key. The caller holds the lock.
func (q tokens) insert(t store.Token) error {
	t.Secret, t.CreatedAt = "", instant(t.CreatedAt)
	t.ExpiresAt, t.LastUsedAt, t.RevokedAt = instantOrNil(t.ExpiresAt), instantOrNil(t.LastUsedAt), instantOrNil(t.RevokedAt)
	for _, e := range q.s.tokens {
		if e.value.ID == t.ID || e.value.Hash == t.Hash {
			return fmt.Errorf("token %s: %w", t.ID, store.ErrExists)
		}
	}
	q.s.tokens[t.ID] = &entry[store.Token]{arrival: q.s.next(), value: t}
	return nil
}

// SignIn stores a sign-in, unless its user has too many.
func (q tokens) SignIn(ctx context.Context, t store.Token, most int) (stored bool, err error) {
	err = q.s.write(ctx, func() error {
		now, n := instant(t.CreatedAt), 0
		maps.DeleteFunc(q.s.tokens, func(_ string, e *entry[store.Token]) bool {
			return e.value.Parent != "" && (e.value.RevokedAt != nil || e.value.ExpiresAt != nil && !e.value.ExpiresAt.After(now))
		})
		for _, e := range q.s.tokens {
			if e.value.Parent != "" && e.value.UserID == t.UserID {
				n++
			}
		}
		if n >= most {
			return nil
		}
		err := q.insert(t)
		stored = err == nil
		return err
	})
	return stored, err
}

// DeleteEnded deletes the tokens that expired, or were revoked, before a time.
func (q tokens) DeleteEnded(ctx context.Context, before time.Time) (n int, err error) {
	err = q.s.write(ctx, func() error {
		before, had := instant(before), len(q.s.tokens)
		maps.DeleteFunc(q.s.tokens, func(_ string, e *entry[store.Token]) bool {
			return e.value.ExpiresAt != nil && e.value.ExpiresAt.Before(before) || e.value.RevokedAt != nil && e.value.RevokedAt.Before(before)
		})
		n = had - len(q.s.tokens)
		return nil
	})
	return n, err
}

// Spend revokes a token that is not revoked.
func (q tokens) Spend(ctx context.Context, hash string, at time.Time) error {
	return q.s.write(ctx, func() error {
		for _, e := range q.s.tokens {
			if e.value.Hash == hash && e.value.RevokedAt == nil {
				e.value.RevokedAt = new(instant(at))
				return nil
			}
		}
		return store.ErrNotFound
	})
}

func copiedToken(t store.Token) store.Token {
	t.ExpiresAt, t.LastUsedAt, t.RevokedAt = instantOrNil(t.ExpiresAt), instantOrNil(t.LastUsedAt), instantOrNil(t.RevokedAt)
	return t
}

// ByHash returns the key with that hash.
func (q tokens) ByHash(ctx context.Context, hash string) (t store.Token, err error) {
	err = q.s.read(ctx, func() error {
		for _, e := range q.s.tokens {
			if e.value.Hash == hash {
				t = copiedToken(e.value)
				return nil
			}
		}
		return store.ErrNotFound
	})
	return t, err
}

// List returns all tokens, newest first.
func (q tokens) List(ctx context.Context) (out []store.Token, err error) {
	err = q.s.read(ctx, func() error {
		all := slices.Collect(maps.Values(q.s.tokens))
		sortEntries(all, true, func(t *store.Token) time.Time { return t.CreatedAt })
		for _, e := range all {
			out = append(out, copiedToken(e.value))
		}
		return nil
	})
	return out, err
}

// Used stores when a key was last used.
func (q tokens) Used(ctx context.Context, id string, at time.Time) error {
	return q.note(ctx, id, func(t *store.Token) {
		if t.LastUsedAt == nil || t.LastUsedAt.Before(at) {
			t.LastUsedAt = new(instant(at))
		}
	})
}

// Revoke stores when a key was revoked.
func (q tokens) Revoke(ctx context.Context, id string, at time.Time) error {
	return q.note(ctx, id, func(t *store.Token) {
		if t.RevokedAt == nil {
			t.RevokedAt = new(instant(at))
		}
	})
}

func (q tokens) note(ctx context.Context, id string, change func(*store.Token)) error {
	return q.s.write(ctx, func() error {
		e := q.s.tokens[id]
		if e == nil {
			return fmt.Errorf("token %s: %w", id, store.ErrNotFound)
		}
		change(&e.value)
		return nil
	})
}
