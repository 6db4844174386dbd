package runtimetest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/runtime"
)

func testClaim(t *testing.T, o Options) {
	if _, ok := o.New(t).(runtime.Claimer); !ok {
		t.Skip("this runtime's sandboxes cannot be claimed")
	}

	t.Run("blank", func(t *testing.T) {
		c := o.New(t).(runtime.Claimer)
		blank := c.Blank(o.spec())
		if blank.ID != "" || blank.Lease != 0 {
			t.Errorf("a blank with an id or a lease: %+v", blank)
		}
		if key(c.Blank(o.spec())) != key(blank) || key(c.Blank(blank)) != key(blank) {
			t.Errorf("not the same for the same spec, or not for itself: %+v", blank)
		}
		for name, change := range map[string]func(*runtime.Spec){
			"image":     func(s *runtime.Spec) { s.Root.Dir, s.Root.Digest = "/srv/other", "sha256:0" },
			"workspace": func(s *runtime.Spec) { s.Workspace.Bytes *= 2 },
			"inodes":    func(s *runtime.Spec) { s.Workspace.Inodes /= 2 },
			"exec":      func(s *runtime.Spec) { s.Workspace.Exec = !s.Workspace.Exec },
			"medium":    func(s *runtime.Spec) { s.Workspace.Medium = runtime.MediumDisk },
			"network":   func(s *runtime.Spec) { s.Network.Mode = "other" },
			"lifetime":  func(s *runtime.Spec) { s.Lifetime = runtime.LifetimeDetached },
			"require":   func(s *runtime.Spec) { s.Require = append(slices.Clone(s.Require), "moat") },
		} {
			other := o.spec()
			change(&other)
			if key(c.Blank(other)) == key(blank) {
				t.Errorf("another %s is no other blank", name)
			}
		}
		wants := o.spec()
		wants.Require = []string{"b", "a", "b"}
		same := o.spec()
		same.Require = []string{"a", "b"}
		if key(c.Blank(wants)) != key(c.Blank(same)) {
			t.Error("the order of what is required matters")
		}
	})

	t.Run("is the caller's in every respect", func(t *testing.T) {
		j := blank(t, o)
		from := j.ID()
		if _, err := j.agent.Ping(j.ctx); err != nil {
			t.Fatal(err)
		}
		spec := o.spec()
		j.claim(spec)
		if j.ID() != spec.ID {
			t.Errorf("it is %s, want %s", j.ID(), spec.ID)
		}
		if got := j.must("echo $((6*7))"); got != "42" {
			t.Errorf("it says %q", got)
		}
		ids, err := j.runtime.List(j.ctx)
		if err != nil || !slices.Equal(ids, []string{spec.ID}) {
			t.Errorf("list: %v, %v", ids, err)
		}
		if _, err := j.runtime.Attach(j.ctx, from); !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("attach to what it was: %v", err)
		}
		if err := j.runtime.Remove(j.ctx, from); err != nil {
			t.Errorf("remove what it was: %v", err)
		}
		again, err := j.runtime.Attach(j.ctx, spec.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := agent.New(again.Dial).Ping(j.ctx); err != nil {
			t.Errorf("its agent, attached to: %v", err)
		}
		if err := j.runtime.Remove(j.ctx, spec.ID); err != nil {
			t.Fatal(err)
		}
		if exit, err := j.Wait(j.ctx); err != nil || exit.Reason != runtime.ExitDestroyed {
			t.Errorf("it ended with %+v, %v", exit, err)
		}
		j.none()
	})

	t.Run("has its memory", func(t *testing.T) { testClaimedMemory(t, o) })

	t.Run("lives on after a restart", func(t *testing.T) {
		if o.Restart == nil {
			t.Skip("this runtime's test cannot restart it")
		}
		j := blank(t, o, detached)
		before, err := j.agent.Ping(j.ctx)
		if err != nil {
			t.Fatal(err)
		}
		spec := o.spec()
		detached(&spec)
		j.claim(spec)
		j.restart()
		if info, err := j.agent.Ping(j.ctx); err != nil || info.BootID != before.BootID {
			t.Errorf("%+v, %v; before %+v", info, err, before)
		}
		if err := j.runtime.Remove(j.ctx, spec.ID); err != nil {
			t.Error(err)
		}
		j.none()
	})

	t.Run("once", func(t *testing.T) {
		j := blank(t, o)
		from, c := j.ID(), j.runtime.(runtime.Claimer)
		var mu sync.Mutex
		var won []runtime.Sandbox
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				s, err := c.Claim(j.ctx, from, o.spec())
				if err != nil && !errors.Is(err, runtime.ErrNotFound) {
					t.Errorf("claim: %v", err)
				}
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					won = append(won, s)
				}
			})
		}
		all.Wait()
		if len(won) != 1 {
			t.Fatalf("%d have claimed it", len(won))
		}
		if _, err := agent.New(won[0].Dial).Ping(j.ctx); err != nil {
			t.Errorf("the one who has it: %v", err)
		}
		if _, err := c.Claim(j.ctx, won[0].ID(), o.spec()); err == nil {
			t.Error("it was claimed from its caller")
		}
		j.none()
	})

	for name, test := range map[string]struct {
		spec func(*jar) runtime.Spec
		want error
	}{
		"something else": {spec: func(*jar) runtime.Spec {
			s := o.spec()
			s.Workspace.Exec = !s.Workspace.Exec
			return s
		}},
		"what cannot be enforced": {spec: func(*jar) runtime.Spec {
			s := o.spec()
			s.Require = []string{"nonsense"}
			return s
		}},
		"a name that is taken": {spec: func(j *jar) runtime.Spec {
			s := o.spec()
			s.ID = create(j.T, o, j.runtime).ID()
			return s
		}},
		"one that has ended": {want: runtime.ErrGone, spec: func(j *jar) runtime.Spec {
			if err := j.agent.Lease(j.ctx, time.Millisecond); err != nil && !errors.Is(err, agent.ErrDisconnected) {
				j.Fatal(err) // the lease may end before the answer
			}
			if _, err := j.Wait(j.ctx); err != nil {
				j.Fatal(err)
			}
			return o.spec()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			j := blank(t, o)
			from, spec := j.ID(), test.spec(j)
			_, err := j.runtime.(runtime.Claimer).Claim(j.ctx, from, spec)
			// If a dead sandbox leaves nothing, it is not found.
			if err == nil || test.want != nil && !errors.Is(err, test.want) && !errors.Is(err, runtime.ErrNotFound) {
				t.Errorf("claim: %v, want %v", err, test.want)
			}
			ids, err := j.runtime.List(j.ctx)
			if err != nil || slices.Contains(ids, from) || name != "a name that is taken" && len(ids) > 0 {
				t.Errorf("list: %v, %v", ids, err)
			}
		})
	}

	t.Run("nobody", func(t *testing.T) {
		j := blank(t, o)
		if _, err := j.runtime.(runtime.Claimer).Claim(j.ctx, belljar.NewID(), o.spec()); !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("claim: %v", err)
		}
		ctx, cancel := context.WithCancel(j.ctx)
		cancel()
		if _, err := j.runtime.(runtime.Claimer).Claim(ctx, j.ID(), o.spec()); err == nil {
			t.Error("a caller who has gone has claimed it")
		}
		j.none()
	})
}

// blank makes a sandbox for a caller who claims it as [Options.spec].
func blank(t *testing.T, o Options, change ...func(*runtime.Spec)) *jar {
	t.Helper()
	r := o.New(t)
	return create(t, o, r, append(change, func(s *runtime.Spec) {
		*s = r.(runtime.Claimer).Blank(*s)
		s.ID, s.Lease = "pool-"+belljar.NewID(), time.Hour
	})...)
}

func detached(s *runtime.Spec) { s.Lifetime = runtime.LifetimeDetached }

// claim makes a blank the sandbox of spec.
func (j *jar) claim(spec runtime.Spec) {
	j.Helper()
	s, err := j.runtime.(runtime.Claimer).Claim(j.ctx, j.ID(), spec)
	if err != nil {
		j.Fatalf("claim: %v", err)
	}
	j.Sandbox, j.agent = s, agent.New(s.Dial)
}

// none checks that nothing is left once the living sandboxes are removed.
func (j *jar) none() {
	j.Helper()
	ids, err := j.runtime.List(j.ctx)
	if err != nil {
		j.Error(err)
	}
	for _, id := range ids {
		if err := j.runtime.Remove(j.ctx, id); err != nil {
			j.Error(err)
		}
	}
	if ids, err := j.runtime.List(j.ctx); err != nil || len(ids) > 0 {
		j.Errorf("left: %v, %v", ids, err)
	}
}

// key returns a key that differs for different specs.
func key(s runtime.Spec) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a spec has only JSON types
	}
	return string(text)
}
