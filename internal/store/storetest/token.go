package storetest

import (
	"testing"
	"time"

	"github.com/belljar/belljar/internal/store"
)

func tokenLife(t *testing.T, s store.Store) {
	ctx := t.Context()
	var a, b store.Token
	fill(&a)
	fill(&b)
	b.ID, b.Hash, b.CreatedAt, b.ExpiresAt, b.LastUsedAt, b.RevokedAt = "b", "hash b", start().Add(time.Hour), nil, nil, nil
	a.CreatedAt, a.RevokedAt, a.LastUsedAt = start(), nil, nil
	ok(t, s.Tokens().Insert(ctx, a))
	ok(t, s.Tokens().Insert(ctx, b))
	a.Secret, b.Secret = "", "" // is never stored
	got, err := s.Tokens().ByHash(ctx, a.Hash)
	ok(t, err)
	same(t, "by hash", got, a)
	all, err := s.Tokens().List(ctx)
	ok(t, err)
	same(t, "newest first", all, []store.Token{b, a})
	for _, hash := range []string{"", "nobody's", "' OR 1=1 --", a.ID} {
		_, err = s.Tokens().ByHash(ctx, hash)
		wantErr(t, "by hash "+hash, err, store.ErrNotFound)
	}

	sameHash, sameID := a, a
	sameHash.ID, sameID.Hash = "other", "other"
	wantErr(t, "a hash that is taken", s.Tokens().Insert(ctx, sameHash), store.ErrExists)
	wantErr(t, "an id that is taken", s.Tokens().Insert(ctx, sameID), store.ErrExists)

	at := start().Add(2 * time.Hour)
	ok(t, s.Tokens().Used(ctx, a.ID, at))
	ok(t, s.Tokens().Used(ctx, a.ID, at.Add(-time.Minute)))
	a.LastUsedAt = &at
	ok(t, s.Tokens().Revoke(ctx, a.ID, at))
	ok(t, s.Tokens().Revoke(ctx, a.ID, at.Add(time.Hour)))
	a.RevokedAt = &at
	got, err = s.Tokens().ByHash(ctx, a.Hash)
	ok(t, err)
	same(t, "used and revoked", got, a)
	got, err = s.Tokens().ByHash(ctx, b.Hash)
	ok(t, err)
	same(t, "the other", got, b)
	wantErr(t, "used", s.Tokens().Used(ctx, "nobody", at), store.ErrNotFound)
	wantErr(t, "revoke", s.Tokens().Revoke(ctx, "nobody", at), store.ErrNotFound)
}
