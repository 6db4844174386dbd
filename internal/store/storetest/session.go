package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

func openSession(user string, n int) store.Session {
	at := start().Add(time.Duration(n) * time.Second)
	return store.Session{Session: belljar.Session{
		ID: belljar.NewID(), UserID: user, State: belljar.SessionActive, SpecVersion: "1.0", Runtime: "native",
		BaseImage: "host", CreatedAt: at, ExpiresAt: at.Add(time.Hour),
	}}
}

func closed(s store.Session, at time.Time) store.Session {
	s.State, s.Message, s.EndedAt = belljar.SessionClosed, "deleted by its caller", &at
	return s
}

func addSession(t *testing.T, s store.Store, each store.Session) {
	t.Helper()
	if prior, err := s.Sessions().Insert(t.Context(), each, nil); err != nil || prior != nil {
		t.Fatalf("insert: prior %v, error %v", prior, err)
	}
}

func getSession(t *testing.T, s store.Store, id string) store.Session {
	t.Helper()
	got, err := s.Sessions().Get(t.Context(), id)
	ok(t, err)
	return got
}

func sessionComesBack(t *testing.T, s store.Store) {
	var a store.Session
	fill(&a)
	a.ID, a.State, a.EndedAt = belljar.NewID(), belljar.SessionStarting, nil
	a.Spec.Secrets = nil
	addSession(t, s, a)
	same(t, "inserted", getSession(t, s, a.ID), a)
	a.Labels["more"] = "x"
	if got := getSession(t, s, a.ID); got.Labels["more"] != "" {
		t.Error("the store shares a map with who inserted")
	}

	var b store.Session
	fill(&b)
	b.ID, b.UserID, b.Key, b.CreatedAt, b.State, b.Message = a.ID, a.UserID, a.Key, a.CreatedAt, belljar.SessionLost, "gone"
	b.Spec.Secrets = nil
	ok(t, s.Sessions().Update(t.Context(), b))
	same(t, "updated", getSession(t, s, a.ID), b)
	page, total, err := s.Sessions().List(t.Context(), "", belljar.SessionQuery{All: true})
	ok(t, err)
	listed := b
	listed.Spec = belljar.SessionSpec{}
	same(t, "listed", page, []store.Session{listed})
	same(t, "total", total, 1)
	if got := getSession(t, s, a.ID); got.CreatedAt.Location() != time.UTC || got.EndedAt.Location() != time.UTC {
		t.Error("times are not in UTC")
	}
	bare := store.Session{Session: belljar.Session{ID: belljar.NewID(), State: belljar.SessionStarting}}
	addSession(t, s, bare)
	same(t, "bare", getSession(t, s, bare.ID), bare)
}

func sessionLife(t *testing.T, s store.Store) {
	ctx := t.Context()
	a, b, c := openSession("ann", 1), openSession("bob", 2), openSession("ann", 3)
	_, err := s.Sessions().Get(ctx, a.ID)
	wantErr(t, "get", err, store.ErrNotFound)
	wantErr(t, "update", s.Sessions().Update(ctx, a), store.ErrNotFound)
	for _, each := range []store.Session{c, a, b} {
		addSession(t, s, each)
	}
	_, err = s.Sessions().Insert(ctx, a, nil)
	wantErr(t, "insert twice", err, store.ErrExists)
	halfEnded := a
	halfEnded.EndedAt = new(start())
	wantErr(t, "half ended", s.Sessions().Update(ctx, halfEnded), store.ErrInvalid)
	_, err = s.Sessions().Insert(ctx, store.Session{}, nil)
	wantErr(t, "no id", err, store.ErrInvalid)

	listed := func(what, user string, q belljar.SessionQuery, total int, want ...store.Session) {
		t.Helper()
		page, n, err := s.Sessions().List(ctx, user, q)
		ok(t, err)
		for i := range want {
			want[i].Spec = belljar.SessionSpec{} // which may be large
		}
		same(t, what, page, want)
		same(t, what+": total", n, total)
	}
	listed("everybody's", "", belljar.SessionQuery{}, 3, c, b, a)
	listed("ann's", "ann", belljar.SessionQuery{}, 2, c, a)
	listed("a page", "", belljar.SessionQuery{Limit: 1, Offset: 1}, 3, b)
	listed("past the end", "", belljar.SessionQuery{Offset: 3}, 3)
	listed("an injection", "' OR 1=1 --", belljar.SessionQuery{}, 0)

	c = closed(c, start().Add(time.Hour))
	c.UserID, c.CreatedAt = "eve", start().Add(99*time.Hour)
	ok(t, s.Sessions().Update(ctx, c))
	c.UserID, c.CreatedAt = "ann", start().Add(3*time.Second)
	same(t, "owner and creation never change", getSession(t, s, c.ID), c)
	listed("ann's living", "ann", belljar.SessionQuery{}, 1, a)
	listed("all of ann's", "ann", belljar.SessionQuery{All: true}, 2, c, a)
	living, err := s.Sessions().Unfinished(ctx)
	ok(t, err)
	same(t, "unfinished", living, []store.Session{a, b})

	n, err := s.Sessions().DeleteEnded(ctx, start().Add(time.Hour))
	ok(t, err)
	same(t, "ended before the hour", n, 0)
	n, err = s.Sessions().DeleteEnded(ctx, start().Add(time.Hour+time.Microsecond))
	ok(t, err)
	same(t, "ended at the hour", n, 1)
	listed("what is left", "", belljar.SessionQuery{All: true}, 2, b, a)
}

func sessionScopeKey(t *testing.T, s store.Store) {
	ctx := t.Context()
	a := openSession("ann", 0)
	a.Key = "workflow:1:main"
	addSession(t, s, a)
	twin := openSession("ann", 1)
	twin.Key = a.Key
	key := keyFor("ann", "k", twin.ID, start())
	key.Endpoint = "sessions"
	_, err := s.Sessions().Insert(ctx, twin, key)
	wantErr(t, "the same scope key", err, store.ErrExists)
	_, err = s.Keys().Get(ctx, "sessions", "ann", "k")
	wantErr(t, "its idempotency key", err, store.ErrNotFound)
	others := openSession("bob", 2)
	others.Key = a.Key
	addSession(t, s, others)
	for range 2 {
		addSession(t, s, openSession("ann", 3)) // a session without a key
	}
	ok(t, s.Sessions().Update(ctx, a)) // its own key does not conflict
	a = closed(a, start())
	ok(t, s.Sessions().Update(ctx, a))
	addSession(t, s, twin)
	a.State, a.EndedAt = belljar.SessionActive, nil
	wantErr(t, "back to life next to its successor", s.Sessions().Update(ctx, a), store.ErrExists)
}

// A released scope key is free for another session, and its previous session cannot reclaim it.
func sessionScopeGivenUp(t *testing.T, s store.Store) {
	ctx := t.Context()
	a, b := openSession("ann", 0), openSession("ann", 1)
	a.Key, b.Key = "thread:1:default", "thread:1:default"
	addSession(t, s, a)
	a.Key = ""
	ok(t, s.Sessions().Update(ctx, a))
	same(t, "without its key", getSession(t, s, a.ID), a)
	addSession(t, s, b)
	a.Key = b.Key
	ok(t, s.Sessions().Update(ctx, a))
	same(t, "a key does not come back", getSession(t, s, a.ID).Key, "")
	b.Key = "thread:2:default"
	ok(t, s.Sessions().Update(ctx, b))
	same(t, "a key does not change", getSession(t, s, b.ID).Key, "thread:1:default")
	// After a session ends, in any terminal state, the next one can use its key. The ended record keeps the key.
	for i, state := range []belljar.SessionState{belljar.SessionClosed, belljar.SessionExpired, belljar.SessionCrashed, belljar.SessionLost} {
		b = getSession(t, s, b.ID)
		b.State, b.EndedAt = state, new(start())
		ok(t, s.Sessions().Update(ctx, b))
		same(t, "key of one that has ended", getSession(t, s, b.ID).Key, "thread:1:default")
		b = openSession("ann", 2+i)
		b.Key = "thread:1:default"
		addSession(t, s, b)
	}
}

func sessionKeyPrefix(t *testing.T, s store.Store) {
	keys := []string{
		"workflow:1:default", "workflow:1:x", "workflow:10:default", "workflow:1", "WORKFLOW:1:default", "thread:%:_", "thread:%25:a",
		"thread:ü:é", "thread:\U0010ffff\U0010ffff:z", "",
	}
	for i, key := range keys {
		each := openSession("ann", i)
		each.Key = key
		addSession(t, s, each)
	}
	other := openSession("bob", 50)
	other.Key = "workflow:1:default"
	addSession(t, s, other)
	ended := openSession("ann", 51)
	ended.Key = "workflow:1:ended"
	addSession(t, s, closed(ended, start()))
	for _, test := range []struct {
		prefix string
		all    bool
		want   []string // newest first
	}{
		{"workflow:1:", false, []string{"workflow:1:x", "workflow:1:default"}},
		{"workflow:1:", true, []string{"workflow:1:ended", "workflow:1:x", "workflow:1:default"}},
		{"workflow:1", false, []string{"workflow:1", "workflow:10:default", "workflow:1:x", "workflow:1:default"}},
		{"w", false, []string{"workflow:1", "workflow:10:default", "workflow:1:x", "workflow:1:default"}},
		{"%", false, nil},
		{"thread:%", false, []string{"thread:%25:a", "thread:%:_"}},
		{"thread:_", false, nil},
		{"thread:\xc3", false, []string{"thread:ü:é"}}, // half a character
		{"thread:ü", false, []string{"thread:ü:é"}},
		{"thread:u", false, nil},
		{"thread:\U0010ffff", false, []string{"thread:\U0010ffff\U0010ffff:z"}},
		{"workflow:1:default' OR ''='", false, nil},
		{"workflow:1:default and more", false, nil},
	} {
		page, total, err := s.Sessions().List(t.Context(), "ann", belljar.SessionQuery{KeyPrefix: test.prefix, All: test.all})
		ok(t, err)
		var got []string
		for _, each := range page {
			got = append(got, each.Key)
		}
		same(t, test.prefix, got, test.want)
		same(t, test.prefix+": total", total, len(test.want))
	}
	page, total, err := s.Sessions().List(t.Context(), "", belljar.SessionQuery{KeyPrefix: "workflow:1:", Limit: 1, Offset: 1})
	ok(t, err)
	same(t, "everybody's, a page", fmt.Sprint(page[0].Key, total), "workflow:1:x3")
}

func sessionRace(t *testing.T, s store.Store) {
	var mu sync.Mutex
	var group sync.WaitGroup
	made := 0
	for i := range 50 {
		group.Go(func() {
			each := openSession("ann", i)
			each.Key = "one"
			_, err := s.Sessions().Insert(t.Context(), each, nil)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made++
			} else {
				wantErr(t, fmt.Sprint("racer ", i), err, store.ErrExists)
			}
		})
	}
	group.Wait()
	same(t, "made", made, 1)
}
