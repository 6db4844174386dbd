package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// openApproval returns a pending approval, requested n seconds after start.
func openApproval(id, user string, n int) belljar.Approval {
	at := start().Add(time.Duration(n) * time.Second)
	return belljar.Approval{
		ID: id, Kind: "run", UserID: user, State: belljar.ApprovalPending, Reasons: []string{"network"}, RequestedAt: at, ExpiresAt: at.Add(time.Hour),
	}
}

func approvalLife(t *testing.T, s store.Store) {
	ctx := t.Context()
	var a belljar.Approval
	fill(&a)
	a.ID, a.UserID, a.State, a.RequestedAt = "a", "ann", belljar.ApprovalPending, start()
	b, c := openApproval("b", "ben", 1), openApproval("c", "ann", 2)
	for _, each := range []belljar.Approval{a, b, c} {
		ok(t, s.Approvals().Put(ctx, each))
	}
	got, err := s.Approvals().Get(ctx, "a")
	ok(t, err)
	same(t, "every field", got, a)
	_, err = s.Approvals().Get(ctx, "' OR 1=1 --")
	wantErr(t, "of no user", err, store.ErrNotFound)

	denied := b
	denied.State, denied.DecidedBy, denied.Note, denied.DecidedAt = belljar.ApprovalDenied, "op", "no", new(start().Add(time.Minute))
	ok(t, s.Approvals().Decide(ctx, denied))
	again := denied
	again.State = belljar.ApprovalApproved
	wantErr(t, "decided twice", s.Approvals().Decide(ctx, again), store.ErrEnded)
	again.ID = "nobody"
	wantErr(t, "decide", s.Approvals().Decide(ctx, again), store.ErrNotFound)
	for _, l := range []struct {
		q     belljar.ApprovalQuery
		want  []belljar.Approval
		total int
	}{
		{belljar.ApprovalQuery{}, []belljar.Approval{c, denied, a}, 3},
		{belljar.ApprovalQuery{State: belljar.ApprovalPending}, []belljar.Approval{c, a}, 2},
		{belljar.ApprovalQuery{State: belljar.ApprovalDenied}, []belljar.Approval{denied}, 1},
		{belljar.ApprovalQuery{UserID: "ann", Limit: 1, Offset: 1}, []belljar.Approval{a}, 2},
		{belljar.ApprovalQuery{UserID: "' OR 1=1 --"}, nil, 0},
	} {
		page, total, err := s.Approvals().List(ctx, l.q)
		ok(t, err)
		same(t, fmt.Sprintf("%+v", l.q), page, l.want)
		same(t, "total", total, l.total)
	}
	n, err := s.Approvals().DeleteBefore(ctx, start().Add(time.Hour))
	ok(t, err)
	same(t, "deleted: those pending stay", n, 1)
	_, err = s.Approvals().Get(ctx, "b")
	wantErr(t, "deleted", err, store.ErrNotFound)
}

// approvalRace checks that exactly one of several concurrent decisions wins.
func approvalRace(t *testing.T, s store.Store) {
	ok(t, s.Approvals().Put(t.Context(), openApproval("a", "ann", 0)))
	var wins atomic.Int32
	var by atomic.Value
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			a := openApproval("a", "ann", 0)
			a.State, a.DecidedBy = belljar.ApprovalApproved, fmt.Sprint("op", i)
			switch err := s.Approvals().Decide(t.Context(), a); {
			case err == nil:
				wins.Add(1)
				by.Store(a.DecidedBy)
			case !errors.Is(err, store.ErrEnded):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := s.Approvals().Get(t.Context(), "a")
	ok(t, err)
	if wins.Load() != 1 || got.DecidedBy != by.Load() {
		t.Errorf("%d won; it says %s, not %v", wins.Load(), got.DecidedBy, by.Load())
	}
}
