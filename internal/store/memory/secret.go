package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/belljar/belljar/internal/store"
)

type secrets struct{ s *Store }

type secretName struct{ owner, name string }

// Put stores a secret.
func (q secrets) Put(ctx context.Context, s store.Secret) (store.Secret, error) {
	s.Sealed, s.CreatedAt, s.UpdatedAt = slices.Clone(s.Sealed), instant(s.CreatedAt), instant(s.UpdatedAt)
	err := q.s.write(ctx, func() error {
		if old, ok := q.s.secrets[secretName{s.Owner, s.Name}]; ok {
			s.CreatedAt = old.CreatedAt
		}
		q.s.secrets[secretName{s.Owner, s.Name}] = s
		return nil
	})
	if err != nil {
		return store.Secret{}, err
	}
	return copiedSecret(s), nil
}

func copiedSecret(s store.Secret) store.Secret {
	s.Sealed = slices.Clone(s.Sealed)
	return s
}

// Get returns a secret.
func (q secrets) Get(ctx context.Context, owner, name string) (got store.Secret, err error) {
	err = q.s.read(ctx, func() error {
		s, ok := q.s.secrets[secretName{owner, name}]
		if !ok {
			return fmt.Errorf("secret %s: %w", name, store.ErrNotFound)
		}
		got = copiedSecret(s)
		return nil
	})
	return got, err
}

// List returns an owner's secrets.
func (q secrets) List(ctx context.Context, owner string, shared bool) ([]store.Secret, error) {
	return q.list(ctx, func(s store.Secret) bool { return s.Owner == owner || shared && s.Owner == "" })
}

// All returns the secrets of all owners.
func (q secrets) All(ctx context.Context) ([]store.Secret, error) {
	return q.list(ctx, func(store.Secret) bool { return true })
}

func (q secrets) list(ctx context.Context, wanted func(store.Secret) bool) (list []store.Secret, err error) {
	err = q.s.read(ctx, func() error {
		for _, s := range q.s.secrets {
			if wanted(s) {
				list = append(list, copiedSecret(s))
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b store.Secret) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(b.Owner, a.Owner)) })
	return list, err
}

// Delete deletes a secret.
func (q secrets) Delete(ctx context.Context, owner, name string) error {
	return q.s.write(ctx, func() error {
		key := secretName{owner, name}
		if _, ok := q.s.secrets[key]; !ok {
			return fmt.Errorf("secret %s: %w", name, store.ErrNotFound)
		}
		delete(q.s.secrets, key)
		return nil
	})
}
