package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar"
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
	a.Secret, b.Secret = "", "" // a Secret is never stored
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

// tokensDeleted checks that exactly the ended tokens are deleted, for each kind of end.
func tokensDeleted(t *testing.T, s store.Store) {
	ctx := t.Context()
	at := func(sec int) *time.Time { return new(start().Add(time.Duration(sec) * time.Second)) }
	for id, ends := range map[string][2]*time.Time{
		"lives": {}, "will expire": {at(11), nil}, "expires": {at(10), nil}, "expired": {at(9), nil},
		"revoked": {at(11), at(9)}, "revoked late": {nil, at(10)}, "revoked early": {nil, at(1)},
	} {
		ok(t, s.Tokens().Insert(ctx, store.Token{Hash: id, Token: belljar.Token{
			ID: id, UserID: "ann", Role: belljar.RoleUser, CreatedAt: start(), ExpiresAt: ends[0], RevokedAt: ends[1],
		}}))
	}
	for _, want := range []int{3, 0} {
		n, err := s.Tokens().DeleteEnded(ctx, *at(10))
		ok(t, err)
		same(t, "deleted", n, want)
	}
	for id, kept := range map[string]bool{"lives": true, "will expire": true, "expires": true, "revoked late": true, "expired": false, "revoked": false, "revoked early": false} {
		if _, err := s.Tokens().ByHash(ctx, id); kept == errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// signInLife checks the differences between sign-ins and keys: they are swept, counted, and spent once.
func signInLife(t *testing.T, s store.Store) {
	ctx := t.Context()
	sign := func(id string, age time.Duration, life time.Duration) store.Token {
		until := start().Add(age + life)
		return store.Token{Hash: "hash " + id, Parent: "parent", Token: belljar.Token{
			ID: id, UserID: "ann", Role: belljar.RoleUser, CreatedAt: start().Add(age), ExpiresAt: &until,
		}}
	}
	stored := func(want bool, k store.Token, most int) {
		t.Helper()
		got, err := s.Tokens().SignIn(ctx, k, most)
		ok(t, err)
		same(t, k.ID+" is stored", got, want)
	}
	key := sign("key", 0, time.Second)
	key.Parent = ""
	ok(t, s.Tokens().Insert(ctx, key))
	other := sign("of another user", 0, time.Hour)
	other.UserID = "bob"
	stored(true, other, 1)
	stored(true, sign("a", 0, time.Minute), 2)
	stored(true, sign("b", time.Second, time.Hour), 2)
	stored(false, sign("c", 2*time.Second, time.Hour), 2)
	_, err := s.Tokens().ByHash(ctx, "hash c")
	wantErr(t, "one too many", err, store.ErrNotFound)
	stored(true, sign("d", time.Minute, time.Hour), 2) // a has expired
	_, err = s.Tokens().ByHash(ctx, "hash a")
	wantErr(t, "swept", err, store.ErrNotFound)
	for _, hash := range []string{"hash key", "hash of another user", "hash b", "hash d"} {
		_, err = s.Tokens().ByHash(ctx, hash)
		ok(t, err)
	}
	_, err = s.Tokens().SignIn(ctx, sign("b", time.Minute, time.Hour), 9)
	wantErr(t, "an id that is taken", err, store.ErrExists)

	at := start().Add(time.Minute)
	var spent atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if s.Tokens().Spend(ctx, "hash b", at) == nil {
				spent.Add(1)
			}
		})
	}
	all.Wait()
	same(t, "spent", spent.Load(), 1)
	got, err := s.Tokens().ByHash(ctx, "hash b")
	ok(t, err)
	want := sign("b", time.Second, time.Hour)
	want.RevokedAt = &at
	same(t, "after that", got, want)
	wantErr(t, "spend", s.Tokens().Spend(ctx, "nobody's", at), store.ErrNotFound)
	stored(true, sign("e", time.Minute, time.Hour), 2) // b is spent, and makes room
	_, err = s.Tokens().ByHash(ctx, "hash b")
	wantErr(t, "spent and swept", err, store.ErrNotFound)
}
