package storetest

import (
	"math"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// contents is the complete content of a store.
type contents struct {
	Runs     []store.Run
	Sessions []store.Session
	Keys     []store.Key
	Tokens   []store.Token
	Users    []belljar.UserUsage
}

func contentsOf(t *testing.T, s store.Store) (c contents) {
	t.Helper()
	ctx := t.Context()
	ids, _ := list(t, s, belljar.RunQuery{Limit: 200})
	for _, id := range ids {
		c.Runs = append(c.Runs, getRun(t, s, id))
	}
	var err error
	c.Sessions, _, err = s.Sessions().List(ctx, "", belljar.SessionQuery{Limit: 200, All: true})
	ok(t, err)
	entries, err := s.Keys().List(ctx, belljar.KeyQuery{Limit: 200})
	ok(t, err)
	for _, e := range entries {
		key, err := s.Keys().Get(ctx, e.Endpoint, e.UserKey, e.Key)
		ok(t, err)
		c.Keys = append(c.Keys, key)
	}
	c.Tokens, err = s.Tokens().List(ctx)
	ok(t, err)
	c.Users, err = s.Users().Top(ctx, 200, start())
	ok(t, err)
	return c
}

// failedWrites checks that a write of which one part fails stores nothing.
func failedWrites(t *testing.T, s store.Store) {
	ctx := t.Context()
	open, session, token := stock(t, s)
	finished := ended(openRun("ann", 1), start(), 1, 10)
	addEnded(t, s, finished)
	former, scoped := openSession("ann", 2), openSession("ann", 3)
	former.Key, scoped.Key = "workflow:1:main", "workflow:1:main"
	addSession(t, s, closed(former, start()))
	addSession(t, s, scoped)
	before := contentsOf(t, s)

	insertRun := func(r store.Run, key *store.Key) error { _, err := s.Runs().Insert(ctx, r, key); return err }
	insertSession := func(r store.Session, key *store.Key) error { _, err := s.Sessions().Insert(ctx, r, key); return err }
	late := func(object string) *store.Key { // replaces the expired key of stock
		key := keyFor("ann", "k", object, start().Add(48*time.Hour))
		key.NotBefore = start().Add(24 * time.Hour)
		return key
	}
	unfit := ended(open, start(), math.NaN(), 1)
	missing := openRun("ann", 4)
	scopeTwice := openSession("ann", 5)
	scopeTwice.Key = scoped.Key
	otherHash, otherID := token, token
	otherID.ID, otherHash.Hash = "other", "other"
	for what, err := range map[string]error{
		"a run whose id is taken":            insertRun(open, keyFor("ann", "fresh", open.ID, start())),
		"the same with an expired key":       insertRun(open, late(open.ID)),
		"a run that has ended, as an open":   insertRun(finished, late(finished.ID)),
		"an update of no run":                s.Runs().Update(ctx, missing),
		"an update of a run that has ended":  s.Runs().Update(ctx, openRunOf(finished)),
		"the end of no run":                  s.Runs().Finish(ctx, ended(missing, start(), 1, 1)),
		"an end that cannot be stored":       s.Runs().Finish(ctx, unfit),
		"a run that cannot be stored":        s.Runs().Add(ctx, ended(missing, start(), math.Inf(1), 1)),
		"a session whose id is taken":        insertSession(session, late(session.ID)),
		"a session whose scope key is taken": insertSession(scopeTwice, late(scopeTwice.ID)),
		"an update to a taken scope key":     s.Sessions().Update(ctx, former),
		"an update of no session":            s.Sessions().Update(ctx, openSession("ann", 6)),
		"a token whose id is taken":          s.Tokens().Insert(ctx, otherHash),
		"a token whose hash is taken":        s.Tokens().Insert(ctx, otherID),
		"use of no token":                    s.Tokens().Used(ctx, "none", start()),
		"revocation of no token":             s.Tokens().Revoke(ctx, "none", start()),
	} {
		if err == nil {
			t.Errorf("%s is stored", what)
		}
	}
	same(t, "contents after the failures", contentsOf(t, s), before)
}
