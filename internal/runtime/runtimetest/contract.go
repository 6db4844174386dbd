package runtimetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

func testContract(t *testing.T, o Options) {
	t.Run("probe", func(t *testing.T) {
		r := o.New(t)
		c, err := r.Probe(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if !c.Available || c.State == "" || c.Isolation == "" || c.AgentUID == "" || r.Name() == "" {
			t.Errorf("%s: %+v", r.Name(), c)
		}
		if o.Isolated == (c.Isolation == runtime.IsolationNone) {
			t.Errorf("isolation is %q", c.Isolation)
		}
		for _, p := range c.Protections {
			if p.Enforced && p.By == "" || !p.Enforced && p.Hint == "" {
				t.Errorf("protection without an explanation: %+v", p)
			}
		}
		if !c.Protection(runtime.ProtectWallTime).Enforced || !c.Protection(runtime.ProtectCPUTime).Enforced || c.Protection("nonsense").Enforced {
			t.Errorf("protections: %+v", c.Protections)
		}
	})

	t.Run("require", func(t *testing.T) {
		r := o.New(t)
		spec := o.spec()
		spec.Require = []string{"nonsense"}
		_, err := r.Create(within(t), spec)
		if step := (*runtime.StepError)(nil); !errors.As(err, &step) || step.Step == "" {
			t.Errorf("an unknown protection: %v", err)
		}
		if ids, err := r.List(within(t)); err != nil || slices.Contains(ids, spec.ID) {
			t.Errorf("a refused sandbox is listed: %v, %v", ids, err)
		}
	})

	r := o.New(t)
	a, b := create(t, o, r), create(t, o, r)
	a.sub("ping", func(j *jar) {
		info, err := j.agent.Ping(j.ctx)
		if err != nil || info.BootID == "" || info.Execs != 0 {
			j.Errorf("%+v, %v", info, err)
		}
		ctx, cancel := context.WithTimeout(j.ctx, 10*time.Millisecond)
		defer cancel()
		if _, err := j.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			j.Errorf("wait for less than its life: %v", err)
		}
	})

	t.Run("two sandboxes", func(t *testing.T) {
		a.write("mine", "a")
		if b.exists("mine") {
			t.Error("they share a workspace")
		}
		if b.run(b.sh("test -e "+runtime.LayersDir)).exit.Code == 0 {
			t.Error("a sandbox without layers has a folder for them")
		}
		ids, err := r.List(a.ctx)
		if err != nil || !slices.Contains(ids, a.ID()) || !slices.Contains(ids, b.ID()) {
			t.Errorf("list: %v, %v", ids, err)
		}
	})

	b.sub("remove", func(j *jar) {
		for range 2 {
			if err := j.runtime.Remove(j.ctx, j.ID()); err != nil {
				j.Fatal(err)
			}
		}
		if exit, err := j.Wait(j.ctx); err != nil || exit.Reason == "" {
			j.Errorf("%+v, %v", exit, err)
		}
		if err := j.runtime.Remove(j.ctx, belljar.NewID()); err != nil {
			j.Errorf("remove nothing: %v", err)
		}
	})

	a.sub("destroy", func(j *jar) {
		p := j.start(j.sh("echo up; sleep 1000"))
		w := j.watch(p)
		w.await("up")
		waited := make(chan runtime.Exit, 4)
		for range cap(waited) {
			go func() {
				exit, err := j.Wait(j.ctx)
				if err != nil {
					j.Errorf("wait: %v", err)
				}
				waited <- exit
			}()
		}
		// A caller whose context is cancelled still gets the sandbox destroyed.
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				ctx := j.ctx
				if i%2 == 0 {
					ctx = cancelled
				}
				if err := j.Destroy(ctx); err != nil {
					j.Errorf("destroy: %v", err)
				}
			})
		}
		all.Wait()
		for range cap(waited) {
			if exit := <-waited; exit.Reason != runtime.ExitDestroyed {
				j.Errorf("it ended with %+v", exit)
			}
		}
		// Either the agent or the command dies first. An agent that sees the command die may have time to report that.
		if <-w.done; w.err == nil && w.exit.Cause == wire.CauseExited && w.exit.Signal != int(syscall.SIGKILL) {
			j.Errorf("its command ended with %+v", w.exit)
		}
		if _, err := j.Dial(j.ctx); !errors.Is(err, runtime.ErrGone) {
			j.Errorf("dial: %v", err)
		}
		if ids, err := j.runtime.List(j.ctx); err != nil || slices.Contains(ids, j.ID()) {
			j.Errorf("list: %v, %v", ids, err)
		}
		if _, err := j.runtime.Attach(j.ctx, j.ID()); !errors.Is(err, runtime.ErrNotFound) {
			j.Errorf("attach: %v", err)
		}
	})
}
