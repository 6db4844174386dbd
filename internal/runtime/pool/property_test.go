package pool_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/pool"
)

// step is one event of a pool.
type step struct {
	What          string
	N             int   // a kind, a number, which sandbox, or milliseconds
	Kinds         []int // in a burst
	Deaf          bool
	Spoil, Refuse bool
	Room          int
}

func drawStep(t *rapid.T) step {
	s := step{What: rapid.SampledFrom([]string{"get", "get", "get", "burst", "destroy", "wait", "crash", "trouble", "warm"}).Draw(t, "step")}
	switch s.What {
	case "get", "warm":
		s.N = rapid.IntRange(0, 3).Draw(t, "kind")
	case "burst":
		s.Kinds = rapid.SliceOfN(rapid.IntRange(0, 3), 2, 9).Draw(t, "kinds")
	case "wait":
		s.N = rapid.IntRange(1, 40_000).Draw(t, "ms")
	case "crash":
		s.N = rapid.IntRange(0, 20).Draw(t, "which")
	case "trouble":
		s.Deaf, s.Spoil, s.Refuse = rapid.Bool().Draw(t, "deaf"), rapid.Bool().Draw(t, "spoil"), rapid.Bool().Draw(t, "refuse")
		s.Room = rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "room")
	}
	return s
}

// For any order of events no caller gets a sandbox that another caller has had, one of another kind, or one under
// another name. In the end nothing is left.
func TestNeverTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		options := pool.Options{
			Size: rapid.IntRange(1, 3).Draw(rt, "size"), Max: rapid.IntRange(1, 5).Draw(rt, "max"), MaxAge: time.Minute, Idle: 30 * time.Second,
		}
		var steps []step
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			steps = append(steps, drawStep(rt))
		}
		life := &life{had: map[int]bool{}, stub: newStub()}
		synctest.Test(t, func(*testing.T) { life.run(options, steps) }) // rapid must not know of it: it panics
		for _, f := range life.faults {
			rt.Error(f)
		}
	})
}

// life is the life of one pool.
type life struct {
	stub *stub
	pool *pool.Pool

	mu     sync.Mutex
	had    map[int]bool // sandboxes that a caller has had
	mine   []*box
	faults []string
}

func (l *life) fault(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

func (l *life) run(o pool.Options, steps []step) {
	var err error
	if l.pool, err = pool.New(l.stub, o); err != nil {
		l.fault("%v", err)
		return
	}
	var all sync.WaitGroup
	for _, s := range steps {
		switch s.What {
		case "get":
			l.get(s.N)
		case "burst":
			for _, kind := range s.Kinds {
				all.Go(func() { l.get(kind) })
			}
		case "destroy":
			all.Wait()
			if len(l.mine) > 0 {
				l.mine[0].Destroy(context.Background())
				l.mine = l.mine[1:]
			}
		case "wait":
			time.Sleep(time.Duration(s.N) * time.Millisecond)
		case "crash":
			if living := l.stub.living(); len(living) > 0 {
				l.stub.set(func() { living[s.N%len(living)].end(runtime.ExitKilled) })
			}
		case "trouble":
			l.stub.set(func() { l.stub.trouble(s) })
		case "warm":
			l.pool.Warm(spec(s.N))
		}
		if got := l.pool.Stats(); got.Ready > o.Max {
			l.fault("%d are ready, of %d", got.Ready, o.Max)
		}
	}
	all.Wait()
	if err := l.pool.Close(); err != nil {
		l.fault("close: %v", err)
	}
	for _, b := range l.mine {
		b.Destroy(context.Background())
	}
	if left := l.stub.living(); len(left) > 0 {
		l.fault("%d are left", len(left))
	}
}

// get creates a sandbox; an error is allowed if the stub causes it.
func (l *life) get(kind int) {
	want := spec(kind)
	b, err := l.pool.Create(context.Background(), want)
	if err != nil {
		return
	}
	got := b.(*box)
	l.stub.mu.Lock()
	made, id, lease := l.stub.creates[got.boot-1], got.id, got.lease
	l.stub.mu.Unlock()
	if id != want.ID || lease != want.Lease {
		l.fault("%s is called %s and has a lease of %v", want.ID, id, lease)
	}
	if made.Workspace != want.Workspace {
		l.fault("asked for kind %d, got %d", kind, made.Workspace.Bytes)
	}
	l.mu.Lock()
	again := l.had[got.boot]
	l.had[got.boot] = true
	l.mine = append(l.mine, got)
	l.mu.Unlock()
	if again {
		l.fault("sandbox %d was handed out twice", got.boot)
	}
}

// trouble applies a step to the stub.
func (s *stub) trouble(is step) {
	s.deaf, s.room, s.spoil, s.refuse = is.Deaf, is.Room, nil, nil
	if is.Spoil {
		s.spoil = errors.New("spoiled")
	}
	if is.Refuse {
		s.refuse = errors.New("refused")
	}
}
