package storetest

import (
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

func secretLife(t *testing.T, s store.Store) {
	ctx := t.Context()
	put := func(owner, name, sealed string, at time.Time) store.Secret {
		t.Helper()
		in := store.Secret{Owner: owner, Name: name, Sealed: []byte(sealed), CreatedAt: at, UpdatedAt: at}
		got, err := s.Secrets().Put(ctx, in)
		ok(t, err)
		in.Sealed[0] = '!' // a store keeps a copy
		return got
	}
	b := put("ann", "B", "first\x00\xff", start())
	a := put("ann", "A", "other", start())
	all := put("", "A", "everybody's", start())
	bob := put("bob", "B", "bob's", start())

	later := start().Add(time.Hour)
	changed := put("ann", "B", "second", later)
	same(t, "replaced", changed, store.Secret{Owner: "ann", Name: "B", Sealed: []byte("second"), CreatedAt: b.CreatedAt, UpdatedAt: later})
	got, err := s.Secrets().Get(ctx, "ann", "B")
	ok(t, err)
	same(t, "got", got, changed)
	list, err := s.Secrets().List(ctx, "ann", false)
	ok(t, err)
	same(t, "one owner's", list, []store.Secret{a, changed})
	list, err = s.Secrets().List(ctx, "ann", true)
	ok(t, err)
	same(t, "one owner's and the shared one", list, []store.Secret{a, all, changed})
	list, err = s.Secrets().All(ctx)
	ok(t, err)
	same(t, "all", list, []store.Secret{a, all, bob, changed})

	for _, who := range [][2]string{{"ann", "C"}, {"bob", "A"}, {"", "B"}, {"ann", "a"}, {"ann", ""}} {
		_, err := s.Secrets().Get(ctx, who[0], who[1])
		wantErr(t, "get", err, store.ErrNotFound)
		wantErr(t, "delete", s.Secrets().Delete(ctx, who[0], who[1]), store.ErrNotFound)
	}
	ok(t, s.Secrets().Delete(ctx, "ann", "A"))
	list, err = s.Secrets().All(ctx)
	ok(t, err)
	same(t, "left", list, []store.Secret{all, bob, changed})
}

// secretsAreSealed: no store accepts unencrypted secrets of a request.
func secretsAreSealed(t *testing.T, s store.Store) {
	given := map[string]belljar.Secret{"TOKEN": {Value: "correct horse"}}
	r := store.Run{Run: belljar.Run{ID: belljar.NewID(), Phase: belljar.PhaseQueued, CreatedAt: start()}, Spec: &belljar.RunSpec{Secrets: given}}
	_, err := s.Runs().Insert(t.Context(), r, nil)
	wantErr(t, "run", err, store.ErrInvalid)
	x := store.Session{Session: belljar.Session{ID: belljar.NewID(), State: belljar.SessionStarting, CreatedAt: start(), ExpiresAt: start()}}
	x.Spec.Secrets = given
	_, err = s.Sessions().Insert(t.Context(), x, nil)
	wantErr(t, "session", err, store.ErrInvalid)
	x.Spec.Secrets = nil
	addSession(t, s, x)
	x.Spec.Secrets = given
	wantErr(t, "session", s.Sessions().Update(t.Context(), x), store.ErrInvalid)
}
