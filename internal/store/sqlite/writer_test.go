package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

func opened(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "store.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func queued(id string) store.Run {
	return store.Run{Run: belljar.Run{ID: id, UserID: "ann", Phase: belljar.PhaseQueued, CreatedAt: time.Unix(1_800_000_000, 0)}}
}

// held blocks the writer inside a write, so that others queue. release unblocks it.
func held(ctx context.Context, t *testing.T, s *Store) (release func() error) {
	t.Helper()
	inside, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- s.writer.do(ctx, write{do: func(*tx) error {
			close(inside)
			<-goOn
			return nil
		}})
	}()
	<-inside
	return func() error {
		close(goOn)
		return <-done
	}
}

// TestOneFailsAlone commits a group in which every second write fails, one of them with a panic.
func TestOneFailsAlone(t *testing.T) {
	s := opened(t)
	boom := errors.New("boom")
	insert := func(id string, after error) *pending {
		return &pending{ctx: t.Context(), done: make(chan error, 1), write: write{do: func(t *tx) error {
			_, err := t.exec("INSERT INTO sandbox_usage (user_id, artifact_bytes) VALUES (?, 1)", id)
			if after == boom {
				panic("boom")
			}
			return errors.Join(err, after)
		}}}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	group := []*pending{insert("a", nil), insert("b", errors.New("no")), insert("c", nil), insert("d", boom), insert("a", nil), insert("e", nil), insert("f", nil)}
	group[6].ctx = gone
	if err := s.writer.do(t.Context(), write{do: func(*tx) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	// The writer is idle now, so the test may use its transaction.
	s.writer.commit(group)
	want := []string{"", "no", "", "panicked", "already in the store", "", "canceled"}
	for i, p := range group {
		got := ""
		if err := <-p.done; err != nil {
			got = err.Error()
		}
		if (got == "") != (want[i] == "") || !strings.Contains(got, want[i]) {
			t.Errorf("write %d: %q, want %q", i, got, want[i])
		}
	}
	top, err := s.Users().Top(t.Context(), 0, time.Now())
	if err != nil || len(top) != 3 || top[0].UserID+top[1].UserID+top[2].UserID != "ace" {
		t.Errorf("on record %v, error %v; want a, c, e", top, err)
	}
}

// TestTwice checks the results of writes that are repeated because another write of their group failed.
func TestTwice(t *testing.T) {
	s := opened(t)
	for _, id := range []string{"old", "other"} {
		if err := s.Snapshots().Insert(t.Context(), belljar.Snapshot{ID: id, UserID: "ann", Digest: "d"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Runs().Insert(t.Context(), queued("first"), nil); err != nil {
		t.Fatal(err)
	}
	front := &Store{writer: &writer{ops: make(chan *pending)}}
	key := &store.Key{Endpoint: "runs", UserKey: "ann", Key: "k", CreatedAt: time.Now()}
	gone, cancel := context.WithCancel(t.Context())
	var group []*pending
	var calls sync.WaitGroup
	for _, call := range []func(){
		func() { front.Snapshots().Delete(gone, "other") },
		func() {
			if last, err := front.Snapshots().Delete(t.Context(), "old"); err != nil || last {
				t.Errorf("last %t, error %v, but the other one is still there", last, err)
			}
		},
		func() {
			if _, err := front.Runs().Insert(t.Context(), queued("first"), key); !errors.Is(err, store.ErrExists) {
				t.Errorf("stored twice: %v", err)
			}
		},
		func() {
			if prior, err := front.Runs().Insert(t.Context(), queued("second"), key); err != nil || prior != nil {
				t.Errorf("prior %+v, error %v, but its key was not stored", prior, err)
			}
		},
		func() {
			_ = front.writer.do(t.Context(), write{do: func(*tx) error {
				cancel()
				return errors.New("no")
			}})
		},
	} {
		calls.Go(call)
		group = append(group, <-front.writer.ops)
	}
	s.writer.commit(group) // the writer is idle
	calls.Wait()
}

// TestGivingUp checks that a cancelled caller whose write has not begun immediately gets its context's error, that one whose write has
// begun gets its result, and that the store still works.
func TestGivingUp(t *testing.T) {
	s := opened(t)
	ctx, cancel := context.WithCancel(t.Context())
	release := held(ctx, t, s)
	answers := make(chan error, 10)
	for i := range 10 {
		go func() {
			_, err := s.Runs().Insert(ctx, queued(fmt.Sprint(i)), nil)
			answers <- err
		}()
	}
	cancel()
	for range 10 {
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want canceled", err)
		}
	}
	if err := release(); err != nil {
		t.Errorf("a write that had begun: %v", err)
	}
	if _, err := s.Runs().Insert(t.Context(), queued("later"), nil); err != nil {
		t.Error(err)
	}
}

// TestCloseAnswersAll checks that Close finishes writes in progress and answers queued ones.
func TestCloseAnswersAll(t *testing.T) {
	s := opened(t)
	release := held(context.Background(), t, s)
	answers := make(chan error, 20)
	for i := range 20 {
		go func() {
			_, err := s.Runs().Insert(context.Background(), queued(fmt.Sprint(i)), nil)
			answers <- err
		}()
	}
	closed := make(chan error, 2)
	for range 2 {
		go func() { closed <- s.Close() }()
	}
	<-s.writer.quit
	if err := release(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := <-answers; err != nil && !errors.Is(err, store.ErrClosed) {
			t.Error(err)
		}
	}
	for range 2 {
		if err := <-closed; err != nil {
			t.Error(err)
		}
	}
}

// TestFull stops the growth of the file: writes return ErrFull, stored rows stay, and writes succeed again when there
// is room.
func TestFull(t *testing.T) {
	s := opened(t)
	limit := func(pages int) {
		t.Helper()
		err := s.writer.do(t.Context(), write{do: func(t *tx) error {
			return t.row(fmt.Sprint("PRAGMA max_page_count = ", pages)).Scan(new(int))
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	first := queued("first")
	if _, err := s.Runs().Insert(t.Context(), first, nil); err != nil {
		t.Fatal(err)
	}
	limit(1) // no more pages than the file has
	big := queued("big")
	big.Spec = &belljar.RunSpec{Code: strings.Repeat("x", 1<<20)}
	key := &store.Key{Endpoint: "runs", UserKey: "ann", Key: "k", ObjectID: "big", CreatedAt: time.Now()}
	if _, err := s.Runs().Insert(t.Context(), big, key); !errors.Is(err, store.ErrFull) {
		t.Errorf("insert: %v, want full", err)
	}
	if _, err := s.Keys().Get(t.Context(), "runs", "ann", "k"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("key: %v, want none", err)
	}
	if _, err := s.Runs().Get(t.Context(), "first"); err != nil {
		t.Error(err)
	}
	limit(1 << 20)
	if _, err := s.Runs().Insert(t.Context(), big, key); err != nil {
		t.Error(err)
	}
}

// TestDurability checks that only a transaction with a durable write uses an fsync.
func TestDurability(t *testing.T) {
	s := opened(t)
	level := func() (n int) {
		t.Helper()
		if err := s.writer.do(t.Context(), write{}.reading("PRAGMA synchronous", &n)); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got := level(); got != 1 {
		t.Errorf("synchronous %d, want 1 (normal)", got)
	}
	durable := write{durable: true}
	var got int
	if err := s.writer.do(t.Context(), durable.reading("PRAGMA synchronous", &got)); err != nil || got != 2 {
		t.Errorf("synchronous %d, error %v, want 2 (full)", got, err)
	}
	if got := level(); got != 1 {
		t.Errorf("synchronous %d, want 1 (normal) again", got)
	}
}

// TestDurableWrites checks which writes survive a power failure: those that callers answer, or act on, directly afterwards.
func TestDurableWrites(t *testing.T) {
	s := opened(t)
	now := time.Unix(1_800_000_000, 0)
	run := queued("run")
	if _, err := s.Runs().Insert(t.Context(), run, nil); err != nil {
		t.Fatal(err)
	}
	run.Phase, run.FinishedAt = belljar.PhaseCompleted, &now
	x := store.Session{Session: belljar.Session{ID: belljar.NewID(), UserID: "ann", State: belljar.SessionActive, CreatedAt: now}}
	if _, err := s.Sessions().Insert(t.Context(), x, nil); err != nil {
		t.Fatal(err)
	}
	asleep := x
	asleep.State = belljar.SessionHibernated
	approval := belljar.Approval{ID: "approval", UserID: "ann", State: belljar.ApprovalPending, RequestedAt: now}
	approved := approval
	approved.State = belljar.ApprovalApproved
	for _, test := range []struct {
		name string
		do   func(context.Context) error
		want string
	}{
		{"active session", func(ctx context.Context) error { return s.Sessions().Update(ctx, x) }, "NORMAL"},
		{"hibernated session", func(ctx context.Context) error { return s.Sessions().Update(ctx, asleep) }, "FULL"},
		{"finished run", func(ctx context.Context) error { return s.Runs().Finish(ctx, run) }, "FULL"},
		{"approval", func(ctx context.Context) error { return s.Approvals().Put(ctx, approval) }, "FULL"},
		{"decision", func(ctx context.Context) error { return s.Approvals().Decide(ctx, approved) }, "FULL"},
		{"secret", func(ctx context.Context) error {
			_, err := s.Secrets().Put(ctx, store.Secret{Owner: "ann", Name: "A", Sealed: []byte("x"), CreatedAt: now, UpdatedAt: now})
			return err
		}, "FULL"},
		{"removed secret", func(ctx context.Context) error { return s.Secrets().Delete(ctx, "ann", "A") }, "FULL"},
		{"snapshot", func(ctx context.Context) error {
			return s.Snapshots().Insert(ctx, belljar.Snapshot{ID: "snapshot", UserID: "ann", Digest: "d", CreatedAt: now})
		}, "FULL"},
		{"removed snapshot", func(ctx context.Context) error {
			_, err := s.Snapshots().Delete(ctx, "snapshot")
			return err
		}, "FULL"},
		{"template", func(ctx context.Context) error {
			return s.Templates().Put(ctx, store.Template{Owner: "ann", Template: belljar.Template{TemplateSpec: belljar.TemplateSpec{Name: "t"}}})
		}, "FULL"},
		{"removed template", func(ctx context.Context) error { return s.Templates().Delete(ctx, "ann", "t") }, "FULL"},
		{"key", func(ctx context.Context) error {
			return s.Tokens().Insert(ctx, store.Token{Token: belljar.Token{ID: "key", UserID: "ann", CreatedAt: now}, Hash: "h"})
		}, "FULL"},
		{"revoked key", func(ctx context.Context) error { return s.Tokens().Revoke(ctx, "key", now) }, "FULL"},
		{"sign-in", func(ctx context.Context) error {
			_, err := s.Tokens().SignIn(ctx, store.Token{Token: belljar.Token{ID: "code", UserID: "ann", CreatedAt: now}, Hash: "c", Parent: "key"}, 10)
			return err
		}, "FULL"},
		{"spent code", func(ctx context.Context) error { return s.Tokens().Spend(ctx, "c", now) }, "FULL"},
	} {
		// Each begins with the mode of a write that is not durable. The writer is idle whenever the test reads its mode.
		if err := s.Tokens().Used(t.Context(), "none", now); !errors.Is(err, store.ErrNotFound) || s.writer.sync != "NORMAL" {
			t.Fatalf("control: synchronous %s, error %v", s.writer.sync, err)
		}
		if err := test.do(t.Context()); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if got := s.writer.sync; got != test.want {
			t.Errorf("%s: synchronous %s, want %s", test.name, got, test.want)
		}
	}
}

func (w write) reading(pragma string, n *int) write {
	w.do = func(t *tx) error { return t.row(pragma).Scan(n) }
	return w
}

// TestTotals checks that the total of a list matches its page while rows are added and removed.
func TestTotals(t *testing.T) {
	s := opened(t)
	ctx, cancel := context.WithCancel(t.Context())
	var changing sync.WaitGroup
	defer changing.Wait()
	defer cancel()
	changing.Go(func() {
		for ctx.Err() == nil {
			for _, statement := range []string{
				"INSERT INTO sandbox_approvals (id, user_id, state, requested_at, detail) VALUES ('a', '', 'pending', '', '{}')", "DELETE FROM sandbox_approvals",
				"INSERT INTO sandbox_snapshots (id, user_id, digest, stored_bytes, created_at, detail) VALUES ('a', '', '', 0, '', '{}')", "DELETE FROM sandbox_snapshots",
			} {
				err := s.writer.do(ctx, write{do: func(t *tx) error {
					_, err := t.exec(statement)
					return err
				}})
				if err != nil && ctx.Err() == nil {
					t.Errorf("%s: %v", statement, err)
				}
			}
		}
	})
	for range 300 {
		approvals, total, err := s.Approvals().List(t.Context(), belljar.ApprovalQuery{})
		if err != nil || total != len(approvals) {
			t.Fatalf("%d of %d approvals, error %v", len(approvals), total, err)
		}
		snapshots, total, err := s.Snapshots().List(t.Context(), belljar.SnapshotQuery{})
		if err != nil || total != len(snapshots) {
			t.Fatalf("%d of %d snapshots, error %v", len(snapshots), total, err)
		}
	}
}
