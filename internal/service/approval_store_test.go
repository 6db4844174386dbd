//go:build linux

package service_test

import (
	"context"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
)

// unapproved is a store that fails to record approvals, or to delete idempotency keys, a number of times.
type unapproved struct {
	store.Store
	puts, deletes, deleted atomic.Int32
}

func (s *unapproved) Approvals() store.Approvals { return unapprovedPuts{s.Store.Approvals(), s} }
func (s *unapproved) Keys() store.Keys           { return unapprovedKeys{s.Store.Keys(), s} }

type unapprovedPuts struct {
	store.Approvals
	s *unapproved
}

func (p unapprovedPuts) Put(ctx context.Context, a belljar.Approval) error {
	if p.s.puts.Add(-1) >= 0 {
		return syscall.EIO
	}
	return p.Approvals.Put(ctx, a)
}

type unapprovedKeys struct {
	store.Keys
	s *unapproved
}

func (k unapprovedKeys) Delete(ctx context.Context, endpoint, user, key, object string) error {
	if k.s.deletes.Add(-1) >= 0 {
		return syscall.EIO
	}
	defer k.s.deleted.Add(1)
	return k.Keys.Delete(ctx, endpoint, user, key, object)
}

// A request whose approval cannot be recorded fails for that reason, and can be sent again with its key.
func TestApprovalNotRecorded(t *testing.T) {
	s := &unapproved{}
	clock := newHourglass()
	b := newBench(t, asking("timeout_sec>600"), func(o *service.Options) { s.Store, o.Store, o.Clock = o.Store, s, clock }).seen(ann)
	req := big("true")
	req.IdempotencyKey = "k"
	s.puts.Store(1)
	_, err := b.Start(b.context(), req)
	refusedAs(t, "a run", err, belljar.CodeInternal)
	page, err := b.List(b.context(), belljar.RunQuery{})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	b.follow(page.Items[0].ID).want(t, belljar.PhaseFailed, -1, belljar.ReasonProvisionFailed)
	again := b.start(req)
	b.pending(again.ID)
	if err := b.Cancel(b.context(), again.ID); err != nil {
		t.Fatal(err)
	}
	b.follow(again.ID)

	ask := belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.1", BaseImage: "host", TimeoutSec: 900}, IdempotencyKey: "k"}
	sessions := b.service.As(ann).Sessions()
	for _, deletes := range []int32{0, 2} { // the key is released even if that fails at first
		s.puts.Store(1)
		s.deletes.Store(deletes)
		s.deleted.Store(0)
		_, err = sessions.Create(b.context(), ask)
		refusedAs(t, "a session", err, belljar.CodeInternal)
		b.until(func() bool {
			clock.pass(time.Second)
			return s.deleted.Load() > 0
		})
		x, err := sessions.Create(b.context(), ask)
		if err != nil || x.State != belljar.SessionStarting || x.Approval == nil || x.Approval.State != belljar.ApprovalPending {
			t.Fatalf("%+v, %v", x, err)
		}
		if err := sessions.Delete(b.context(), x.ID); err != nil {
			t.Fatal(err)
		}
		ask.IdempotencyKey += "2"
	}
}

// ofApproval returns the names of the events of an approval.
func (d *diary) ofApproval(id string) (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if e.Approval != nil && e.Approval.ID == id {
			names = append(names, e.Name)
		}
	}
	return names
}
