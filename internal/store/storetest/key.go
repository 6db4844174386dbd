package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// keyFor returns the key of a request that created an object, in force for ten minutes.
func keyFor(user, key, object string, at time.Time) *store.Key {
	return &store.Key{
		Endpoint: "runs", UserKey: user, Key: key, Fingerprint: "f-" + object, ObjectID: object,
		Response: []byte(`{"id":"` + object + `"}`), CreatedAt: at, NotBefore: at.Add(-10 * time.Minute),
	}
}

// kept returns a key as a store returns it.
func kept(k store.Key) store.Key {
	k.NotBefore = time.Time{}
	return k
}

func keyBothOrNeither(t *testing.T, s store.Store) {
	ctx := t.Context()
	a, b := openRun("ann", 0), openRun("ann", 1)
	key := keyFor("ann", "k", a.ID, start())
	prior, err := s.Runs().Insert(ctx, a, key)
	ok(t, err)
	same(t, "prior of the first", prior, nil)
	got, err := s.Keys().Get(ctx, "runs", "ann", "k")
	ok(t, err)
	same(t, "key", got, kept(*key))

	prior, err = s.Runs().Insert(ctx, b, keyFor("ann", "k", b.ID, start().Add(time.Minute)))
	ok(t, err)
	same(t, "prior of the second", prior, new(kept(*key)))
	_, err = s.Runs().Get(ctx, b.ID)
	wantErr(t, "the second run", err, store.ErrNotFound)

	// A run that cannot be stored leaves no key.
	_, err = s.Runs().Insert(ctx, a, keyFor("ann", "fresh", a.ID, start()))
	wantErr(t, "an id that is taken", err, store.ErrExists)
	_, err = s.Keys().Get(ctx, "runs", "ann", "fresh")
	wantErr(t, "its key", err, store.ErrNotFound)
	// It does not replace an expired key either.
	_, err = s.Runs().Insert(ctx, a, keyFor("ann", "k", a.ID, start().Add(time.Hour)))
	wantErr(t, "an id that is taken, with an expired key", err, store.ErrExists)
	got, err = s.Keys().Get(ctx, "runs", "ann", "k")
	ok(t, err)
	same(t, "the expired key", got, kept(*key))

	// Endpoint, user and key together identify an entry.
	for i, other := range []*store.Key{keyFor("bob", "k", "", start()), keyFor("ann", "K", "", start()), keyFor("ann", "k ", "", start())} {
		r := openRun("ann", 2+i)
		other.ObjectID = r.ID
		prior, err := s.Runs().Insert(ctx, r, other)
		ok(t, err)
		same(t, "prior under another name", prior, nil)
	}
	session := openSession("ann", 0)
	other := keyFor("ann", "k", session.ID, start())
	other.Endpoint = "sessions"
	prior, err = s.Sessions().Insert(ctx, session, other)
	ok(t, err)
	same(t, "prior at another endpoint", prior, nil)
}

func keyExpiry(t *testing.T, s store.Store) {
	ctx := t.Context()
	at := start().Truncate(time.Microsecond)
	first := openRun("ann", 0)
	_, err := s.Runs().Insert(ctx, first, keyFor("ann", "k", first.ID, at))
	ok(t, err)
	late := openRun("ann", 1)
	key := keyFor("ann", "k", late.ID, at.Add(10*time.Minute))
	prior, err := s.Runs().Insert(ctx, late, key)
	ok(t, err)
	if prior == nil || prior.ObjectID != first.ID {
		t.Fatalf("made at NotBefore: prior %v, want the first", prior)
	}
	key.NotBefore = at.Add(time.Microsecond)
	prior, err = s.Runs().Insert(ctx, late, key)
	ok(t, err)
	same(t, "prior that has expired", prior, nil)
	got, err := s.Keys().Get(ctx, "runs", "ann", "k")
	ok(t, err)
	same(t, "the key in force", got.ObjectID, late.ID)
	getRun(t, s, first.ID)
	getRun(t, s, late.ID)
}

// keyRace sends one request fifty times concurrently: one call creates the run, and all others get its key.
func keyRace(t *testing.T, s store.Store) {
	for round := range 5 {
		const racers = 50
		var mu sync.Mutex
		var group sync.WaitGroup
		made, counts := []string{}, map[string]int{}
		for i := range racers {
			group.Go(func() {
				r := openRun("ann", i)
				prior, err := s.Runs().Insert(t.Context(), r, keyFor("ann", fmt.Sprint("k", round), r.ID, start()))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					t.Error(err)
				case prior == nil:
					made = append(made, r.ID)
				default:
					counts[prior.ObjectID]++
				}
			})
		}
		group.Wait()
		if len(made) != 1 || counts[made[0]] != racers-1 {
			t.Fatalf("made %v, reported %v; want one made and all others reported", made, counts)
		}
		_, total := list(t, s, belljar.RunQuery{})
		same(t, "runs on record", total, round+1)
	}
}

func keyAdmin(t *testing.T, s store.Store) {
	ctx := t.Context()
	var want []belljar.KeyEntry
	for i := range 5 {
		r := openRun("ann", i)
		k := keyFor([]string{"ann", "bob"}[i%2], fmt.Sprint("k", i), r.ID, start().Add(time.Duration(i)*time.Minute))
		if _, err := s.Runs().Insert(ctx, r, k); err != nil {
			t.Fatal(err)
		}
		want = append([]belljar.KeyEntry{{Endpoint: "runs", UserKey: k.UserKey, Key: k.Key, ObjectID: r.ID, CreatedAt: k.CreatedAt}}, want...)
	}
	for _, each := range []struct {
		q    belljar.KeyQuery
		want []belljar.KeyEntry
	}{
		{belljar.KeyQuery{}, want},
		{belljar.KeyQuery{Endpoint: "runs"}, want},
		{belljar.KeyQuery{Endpoint: "sessions"}, nil},
		{belljar.KeyQuery{UserID: "bob"}, []belljar.KeyEntry{want[1], want[3]}},
		{belljar.KeyQuery{Limit: 2, Offset: 1}, want[1:3]},
		{belljar.KeyQuery{Offset: 5}, nil},
		{belljar.KeyQuery{Endpoint: "' OR 1=1 --"}, nil},
	} {
		got, err := s.Keys().List(ctx, each.q)
		ok(t, err)
		same(t, fmt.Sprintf("%+v", each.q), got, each.want)
	}

	ok(t, s.Keys().Delete(ctx, "runs", "ann", "k4", "another object"))
	_, err := s.Keys().Get(ctx, "runs", "ann", "k4")
	ok(t, err)
	ok(t, s.Keys().Delete(ctx, "runs", "ann", "k4", want[0].ObjectID))
	ok(t, s.Keys().Delete(ctx, "runs", "ann", "k4", want[0].ObjectID))
	_, err = s.Keys().Get(ctx, "runs", "ann", "k4")
	wantErr(t, "get after delete", err, store.ErrNotFound)

	n, err := s.Keys().DeleteBefore(ctx, start().Add(2*time.Minute))
	ok(t, err)
	same(t, "deleted", n, 2)
	got, err := s.Keys().List(ctx, belljar.KeyQuery{})
	ok(t, err)
	same(t, "left", got, want[1:3])
	n, err = s.Keys().DeleteBefore(ctx, start().Add(2*time.Minute).Add(time.Microsecond))
	ok(t, err)
	same(t, "deleted a microsecond later", n, 1)
}
