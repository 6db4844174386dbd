//go:build !race

package box_test

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
)

// TestPlainConnectionsOfUser checks that the sandboxes of one user, new ones and those of a previous process, have 2,048 connections together. The
// race detector itself fails with so many goroutines.
func TestPlainConnectionsOfUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &greedyStub{}
		m := maker(scripted{create: func(context.Context, runtime.Spec) (runtime.Sandbox, error) { return s, nil }})
		var dialled, denied atomic.Int64
		m.Egress.Dial = func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			dialled.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		m.Egress.Count = func(e egress.Event) {
			if e.Reason == egress.Limit {
				denied.Add(1)
			}
		}
		policy := &egress.Policy{Run: egress.Any(), Server: egress.Any(), Ports: []uint16{5432}}
		var boxes []*box.Box
		defer func() {
			for _, b := range boxes {
				_ = b.Destroy(context.Background())
			}
			s.serving.Wait()
		}()
		open := func(user string, again bool) {
			o := box.Order{ID: "s", Caller: belljar.Caller{ID: user}, Placement: placed(m), Made: func(runtime.Sandbox) {}}
			if !again {
				o.Placement.Egress = policy
			}
			b, err := m.Make(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if o.Placement.Egress = policy; again {
				m.Open(t.Context(), b, o)
			}
			boxes = append(boxes, b)
		}
		for i := range 11 {
			open("ann", i%2 == 1)
		}
		synctest.Wait()
		if dialled.Load() != 2048 || denied.Load() != 11*wire.MuxCarried-2048 {
			t.Errorf("%d connections, %d denied", dialled.Load(), denied.Load())
		}
		open("bob", false)
		synctest.Wait()
		if dialled.Load() != 2048+wire.MuxCarried {
			t.Errorf("%d connections with those of another user", dialled.Load())
		}
	})
}
