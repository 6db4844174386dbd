package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// calls returns one call of every method, on existing objects.
func calls(s store.Store, r store.Run, session store.Session, token store.Token) map[string]func(context.Context) error {
	fresh := func() store.Run { return openRun("ann", 1) }
	return map[string]func(context.Context) error{
		"Ping":            s.Ping,
		"Runs.Insert":     func(ctx context.Context) error { _, err := s.Runs().Insert(ctx, fresh(), nil); return err },
		"Runs.Update":     func(ctx context.Context) error { return s.Runs().Update(ctx, r) },
		"Runs.Finish":     func(ctx context.Context) error { return s.Runs().Finish(ctx, ended(r, start(), 1, 1)) },
		"Runs.Get":        func(ctx context.Context) error { _, err := s.Runs().Get(ctx, r.ID); return err },
		"Runs.List":       func(ctx context.Context) error { _, _, err := s.Runs().List(ctx, belljar.RunQuery{}); return err },
		"Runs.Unfinished": func(ctx context.Context) error { _, err := s.Runs().Unfinished(ctx); return err },
		"Runs.Sweepable":  func(ctx context.Context) error { _, err := s.Runs().Sweepable(ctx, start(), true, 1); return err },
		"Runs.Swept":      func(ctx context.Context) error { return s.Runs().Swept(ctx, r.ID) },
		"Runs.Delete":     func(ctx context.Context) error { return s.Runs().Delete(ctx, r.ID) },
		"Sessions.Insert": func(ctx context.Context) error {
			_, err := s.Sessions().Insert(ctx, openSession("ann", 1), nil)
			return err
		},
		"Sessions.Update": func(ctx context.Context) error { return s.Sessions().Update(ctx, closed(session, start())) },
		"Sessions.Get":    func(ctx context.Context) error { _, err := s.Sessions().Get(ctx, session.ID); return err },
		"Sessions.List": func(ctx context.Context) error {
			_, _, err := s.Sessions().List(ctx, "", belljar.SessionQuery{})
			return err
		},
		"Sessions.Open":   func(ctx context.Context) error { _, err := s.Sessions().Unfinished(ctx); return err },
		"Sessions.Delete": func(ctx context.Context) error { _, err := s.Sessions().DeleteEnded(ctx, start()); return err },
		"Keys.Get":        func(ctx context.Context) error { _, err := s.Keys().Get(ctx, "runs", "ann", "k"); return err },
		"Keys.List":       func(ctx context.Context) error { _, err := s.Keys().List(ctx, belljar.KeyQuery{}); return err },
		"Keys.Delete":     func(ctx context.Context) error { return s.Keys().Delete(ctx, "runs", "ann", "k", r.ID) },
		"Keys.DeleteBefore": func(ctx context.Context) error {
			_, err := s.Keys().DeleteBefore(ctx, start().Add(time.Hour))
			return err
		},
		"Users.Usage":    func(ctx context.Context) error { _, err := s.Users().Usage(ctx, "ann", start()); return err },
		"Users.Charge":   func(ctx context.Context) error { return s.Users().Charge(ctx, "ann", store.Charge{}, start()) },
		"Users.Recorded": func(ctx context.Context) error { _, _, err := s.Users().Recorded(ctx, "ann"); return err },
		"Users.Top":      func(ctx context.Context) error { _, err := s.Users().Top(ctx, 1, start()); return err },
		"Users.Delete":   func(ctx context.Context) error { _, err := s.Users().DeleteBefore(ctx, start()); return err },
		"Users.Quota":    func(ctx context.Context) error { _, err := s.Users().Quota(ctx, "ann"); return err },
		"Users.SetQuota": func(ctx context.Context) error { return s.Users().SetQuota(ctx, "ann", &belljar.Quota{}) },
		"Tokens.Insert":  func(ctx context.Context) error { return s.Tokens().Insert(ctx, store.Token{Hash: belljar.NewID()}) },
		"Tokens.ByHash":  func(ctx context.Context) error { _, err := s.Tokens().ByHash(ctx, token.Hash); return err },
		"Tokens.List":    func(ctx context.Context) error { _, err := s.Tokens().List(ctx); return err },
		"Tokens.Delete":  func(ctx context.Context) error { _, err := s.Tokens().DeleteEnded(ctx, start()); return err },
		"Tokens.Used":    func(ctx context.Context) error { return s.Tokens().Used(ctx, token.ID, start()) },
		"Approvals.Put":  func(ctx context.Context) error { return s.Approvals().Put(ctx, openApproval("a", "ann", 1)) },
		"Approvals.Decide": func(ctx context.Context) error {
			a := openApproval("pending", "ann", 1)
			a.State = belljar.ApprovalDenied
			return s.Approvals().Decide(ctx, a)
		},
		"Approvals.Get": func(ctx context.Context) error { _, err := s.Approvals().Get(ctx, "pending"); return err },
		"Approvals.List": func(ctx context.Context) error {
			_, _, err := s.Approvals().List(ctx, belljar.ApprovalQuery{})
			return err
		},
		"Approvals.DeleteBefore": func(ctx context.Context) error { _, err := s.Approvals().DeleteBefore(ctx, start()); return err },
		"Snapshots.Insert":       func(ctx context.Context) error { return s.Snapshots().Insert(ctx, openSnapshot("ann", "d", 1, 1)) },
		"Snapshots.Get":          func(ctx context.Context) error { _, err := s.Snapshots().Get(ctx, "saved"); return err },
		"Snapshots.List": func(ctx context.Context) error {
			_, _, err := s.Snapshots().List(ctx, belljar.SnapshotQuery{})
			return err
		},
		"Snapshots.Has": func(ctx context.Context) error { _, err := s.Snapshots().Has(ctx, "ann", "d"); return err },
		"Snapshots.Expired": func(ctx context.Context) error {
			_, err := s.Snapshots().Expired(ctx, start(), 1)
			return err
		},
		"Snapshots.Delete": func(ctx context.Context) error { _, err := s.Snapshots().Delete(ctx, "saved"); return err },
		"Tokens.Revoke":    func(ctx context.Context) error { return s.Tokens().Revoke(ctx, token.ID, start()) },
	}
}

// stock stores one object of each kind.
func stock(t *testing.T, s store.Store) (r store.Run, session store.Session, token store.Token) {
	t.Helper()
	r, session = openRun("ann", 0), openSession("ann", 0)
	_, err := s.Runs().Insert(t.Context(), r, keyFor("ann", "k", r.ID, start()))
	ok(t, err)
	addSession(t, s, session)
	token.ID, token.Hash, token.UserID, token.CreatedAt = "t", "h", "ann", start()
	ok(t, s.Tokens().Insert(t.Context(), token))
	ok(t, s.Users().SetQuota(t.Context(), "ann", &belljar.Quota{ConcurrentRuns: 1}))
	ok(t, s.Approvals().Put(t.Context(), openApproval("pending", "ann", 0)))
	return r, session, token
}

func contextEnded(t *testing.T, s store.Store) {
	r, session, token := stock(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls(s, r, session, token) {
		wantErr(t, name, call(ctx), context.Canceled)
	}
	late, cancelLate := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancelLate()
	wantErr(t, "Runs.Update", s.Runs().Update(late, r), context.DeadlineExceeded)
	same(t, "the run", getRun(t, s, r.ID), r)
	same(t, "the session", getSession(t, s, session.ID), session)
	_, total := list(t, s, belljar.RunQuery{})
	same(t, "runs on record", total, 1)
}

func closeStore(t *testing.T, s store.Store) {
	r, session, token := stock(t, s)
	ok(t, s.Close())
	for name, call := range calls(s, r, session, token) {
		wantErr(t, name, call(t.Context()), store.ErrClosed)
	}
	ok(t, s.Close())
}

// everything calls all methods from many goroutines, cancels some calls, and closes the store during that.
func everything(t *testing.T, s store.Store) {
	const workers, rounds = 8, 20
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			user := fmt.Sprint("user", w%3)
			for i := range rounds {
				r := openRun(user, i)
				key := keyFor(user, fmt.Sprint(w, i), r.ID, start())
				if prior, err := s.Runs().Insert(t.Context(), r, key); err != nil || prior != nil {
					t.Errorf("insert: prior %v, error %v", prior, err)
					return
				}
				r.Phase = belljar.PhaseRunning
				hasty, giveUp := context.WithCancel(t.Context())
				go giveUp()
				if err := s.Runs().Update(hasty, r); err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("update: %v", err)
				}
				if _, _, err := s.Runs().List(hasty, belljar.RunQuery{UserID: user}); err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("list: %v", err)
				}
				if err := s.Runs().Finish(t.Context(), ended(r, start(), 1, 10)); err != nil {
					t.Errorf("finish: %v", err)
				}
				if got, err := s.Runs().Get(t.Context(), r.ID); err != nil || got.Phase != belljar.PhaseCompleted {
					t.Errorf("get: phase %s, error %v", got.Phase, err)
				}
				if i%4 == 0 {
					if err := s.Runs().Swept(t.Context(), r.ID); err != nil {
						t.Errorf("swept: %v", err)
					}
				}
				giveUp()
			}
		})
	}
	group.Wait()
	_, total := list(t, s, belljar.RunQuery{})
	same(t, "runs", total, workers*rounds)
	usage, err := s.Users().Top(t.Context(), 0, start())
	ok(t, err)
	var bytes int64
	var cpu float64
	for _, u := range usage {
		bytes, cpu = bytes+u.ArtifactBytes, cpu+u.CPUSecondsToday
	}
	same(t, "bytes", bytes, int64(workers*rounds*10*3/4))
	same(t, "cpu seconds", cpu, workers*rounds)

	// A call during Close returns: either the write is stored or it failed with ErrClosed.
	began := make(chan struct{}, workers)
	for w := range workers {
		group.Go(func() {
			for i := 0; ; i++ {
				_, err := s.Runs().Insert(t.Context(), openRun("late", w*1000+i), nil)
				if errors.Is(err, store.ErrClosed) {
					return
				}
				if err != nil {
					t.Errorf("insert while closing: %v", err)
					return
				}
				if i == 0 {
					began <- struct{}{}
				}
			}
		})
	}
	for range workers {
		<-began
	}
	ok(t, s.Close())
	group.Wait()
}

func reopens(t *testing.T, opts Options) {
	s := opts.Open(t)
	r, session, token := stock(t, s)
	last := ended(openRun("ann", 5), start(), 1.5, 100)
	last.SetArtifacts([]belljar.Artifact{{Path: "a", Size: 100}})
	addEnded(t, s, last)
	records, recent := recordedOf(t, s, "ann")
	for range 2 {
		s = opts.Reopen(t, s)
		all, since := recordedOf(t, s, "ann")
		same(t, "records", []int64{all, since}, []int64{records, recent})
		same(t, "run", getRun(t, s, r.ID), r)
		same(t, "finished run", getRun(t, s, last.ID), last)
		same(t, "session", getSession(t, s, session.ID), session)
		same(t, "usage", usageOf(t, s, "ann", start()), belljar.UserUsage{UserID: "ann", ArtifactBytes: 100, CPUSecondsToday: 1.5})
		got, err := s.Tokens().ByHash(t.Context(), token.Hash)
		ok(t, err)
		same(t, "token", got, token)
		quota, err := s.Users().Quota(t.Context(), "ann")
		ok(t, err)
		same(t, "quota", quota, belljar.Quota{ConcurrentRuns: 1})
		prior, err := s.Runs().Insert(t.Context(), openRun("ann", 7), keyFor("ann", "k", "new", start()))
		ok(t, err)
		if prior == nil || prior.ObjectID != r.ID {
			t.Errorf("prior %v, want that of %s", prior, r.ID)
		}
		ids, total := list(t, s, belljar.RunQuery{})
		same(t, "list", ids, []string{last.ID, r.ID})
		same(t, "total", total, 2)
		ok(t, s.Ping(t.Context()))
	}
	ok(t, s.Close())
}
