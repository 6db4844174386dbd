package runtimetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/runtime"
)

func testLifetime(t *testing.T, o Options) {
	if o.Restart == nil {
		t.Skip("this runtime's test cannot restart it")
	}
	t.Run("detached", func(t *testing.T) {
		j := open(t, o, func(s *runtime.Spec) { s.Lifetime = runtime.LifetimeDetached })
		before, err := j.agent.Ping(j.ctx)
		if err != nil {
			t.Fatal(err)
		}
		e := j.sh("echo one; read x; echo two $x")
		e.Stdin = true
		p := j.start(e)
		w := j.watch(p)
		w.await("one")
		j.restart()
		if o.RestartKills {
			if <-w.done; !errors.Is(w.err, agent.ErrDisconnected) {
				t.Errorf("the old daemon's connection: %v", w.err)
			}
		}
		after, err := j.agent.Ping(j.ctx)
		if err != nil || after.BootID != before.BootID {
			t.Errorf("%+v, %v; before %+v", after, err, before)
		}
		again, err := j.agent.Attach(j.ctx, e.ID, p.Position())
		if err != nil {
			t.Fatal(err)
		}
		w = j.watch(again)
		if _, err := again.Write([]byte("more\n")); err != nil {
			t.Fatal(err)
		}
		w.await("two more")
		w.end()
	})
	t.Run("creator", func(t *testing.T) {
		if !o.RestartKills {
			t.Skip("a daemon's end takes another process here")
		}
		j := open(t, o)
		next := o.Restart(t, j.runtime)
		if exit, err := j.Wait(j.ctx); err != nil || exit.Reason == "" {
			t.Errorf("%+v, %v", exit, err)
		}
		if _, err := next.Attach(j.ctx, j.ID()); !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("it survived its creator: %v", err)
		}
		if err := next.Remove(j.ctx, j.ID()); err != nil {
			t.Error(err)
		}
	})
}

func testLease(t *testing.T, o Options) {
	t.Run("ends a sandbox that has no client", func(t *testing.T) {
		r, spec := o.New(t), o.spec()
		spec.Lease = 2 * time.Second
		s, err := r.Create(within(t), spec)
		for err != nil && spec.Lease < patience/10 { // on a busy machine the lease may end before the sandbox is made
			spec.ID, spec.Lease = belljar.NewID(), 2*spec.Lease
			s, err = r.Create(within(t), spec)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Destroy(context.Background()); err != nil {
				t.Errorf("destroy: %v", err)
			}
		})
		if exit, err := s.Wait(within(t)); err != nil || exit.Reason != runtime.ExitAgent {
			t.Errorf("%+v, %v", exit, err)
		}
		if _, err := s.Dial(within(t)); !errors.Is(err, runtime.ErrGone) {
			t.Errorf("dial: %v", err)
		}
	})
	t.Run("can be changed", func(t *testing.T) {
		j := open(t, o, func(s *runtime.Spec) { s.Lease = time.Hour })
		if info, err := j.agent.Ping(j.ctx); err != nil || info.LeaseMS != time.Hour.Milliseconds() {
			t.Errorf("%+v, %v", info, err)
		}
		j.start(j.sh("sleep 1000")).Close()
		if err := j.agent.Lease(j.ctx, 100*time.Millisecond); err != nil && !errors.Is(err, agent.ErrDisconnected) {
			t.Fatal(err) // the lease may end before the answer
		}
		if exit, err := j.Wait(j.ctx); err != nil || exit.Reason != runtime.ExitAgent {
			t.Errorf("%+v, %v", exit, err)
		}
	})
}
