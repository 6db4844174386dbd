package queue

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func enter(t *testing.T, q *Queue, owner string, most int) *Ticket {
	t.Helper()
	ticket, err := q.Enter(owner, most)
	if err != nil {
		t.Fatalf("enter %s: %v", owner, err)
	}
	return ticket
}

// Waiting is how many tickets wait.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

func ready(t *Ticket) bool {
	select {
	case <-t.Ready():
		return true
	default:
		return false
	}
}

// A hundred tickets of one owner do not delay another owner's first.
func TestOwnersTakeTurns(t *testing.T) {
	q := New(Options{Slots: 1, Length: 200})
	running := enter(t, q, "greedy", 0)
	var names []string
	tickets := map[string]*Ticket{}
	put := func(owner, name string) { tickets[name] = enter(t, q, owner, 0); names = append(names, name) }
	for i := range 100 {
		put("greedy", fmt.Sprint("g", i))
	}
	put("a", "a0")
	put("a", "a1")
	put("b", "b0")
	var order []string
	for len(order) < 7 {
		running.Leave()
		for _, name := range names {
			if ticket := tickets[name]; ready(ticket) && !slices.Contains(order, name) {
				order = append(order, name)
				running = ticket
			}
		}
	}
	if want := []string{"g0", "a0", "b0", "g1", "a1", "g2", "g3"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

func TestFull(t *testing.T) {
	q := New(Options{Slots: 2, Length: 3})
	for range 5 {
		enter(t, q, "a", 0)
	}
	if _, err := q.Enter("a", 0); !errors.Is(err, ErrFull) {
		t.Errorf("sixth of one owner: %v", err)
	}
	first := enter(t, q, "b", 0)
	if first.Waited() == ready(first) {
		t.Error("waited and ready")
	}
	if _, err := q.Enter("b", 0); !errors.Is(err, ErrFull) {
		t.Errorf("second of another owner: %v", err)
	}
	first.Leave()
	first.Leave()
	if n := q.Waiting(); n != 3 {
		t.Errorf("%d wait, want 3", n)
	}
}

func TestFullOfFirsts(t *testing.T) {
	q := New(Options{Slots: 1, Length: 2})
	for _, name := range []string{"a", "b", "c"} {
		enter(t, q, name, 0)
	}
	if _, err := q.Enter("d", 0); !errors.Is(err, ErrFull) {
		t.Errorf("a queue with one entry of each user is full: %v", err)
	}
}

func TestQueueWithoutLength(t *testing.T) {
	q := New(Options{Slots: 1})
	first := enter(t, q, "a", 0)
	if _, err := q.Enter("b", 0); !errors.Is(err, ErrFull) {
		t.Errorf("%v", err)
	}
	first.Leave()
	if ticket := enter(t, q, "b", 0); ticket.Waited() || !ready(ticket) {
		t.Error("a free slot was not given")
	}
}

// An owner at its bound waits while slots are free, and does not delay others.
func TestBoundOfAnOwner(t *testing.T) {
	q := New(Options{Slots: 4, Length: 10})
	first, second := enter(t, q, "a", 1), enter(t, q, "a", 1)
	if !ready(first) || ready(second) {
		t.Fatal("bound of one")
	}
	if other := enter(t, q, "b", 0); other.Waited() {
		t.Error("another owner waits for one at its bound")
	}
	if running, waiting := q.Count("a"); running != 1 || waiting != 1 {
		t.Errorf("%d run, %d wait", running, waiting)
	}
	first.Leave()
	if !ready(second) {
		t.Error("the second does not follow the first")
	}
	second.Leave()
	if running, waiting := q.Count("a"); running != 0 || waiting != 0 || len(q.owners) != 1 {
		t.Errorf("%d run, %d wait, owners %v", running, waiting, q.owners)
	}
}

// Raising a bound immediately starts waiting tickets.
func TestBoundIsRaised(t *testing.T) {
	q := New(Options{Slots: 4, Length: 10})
	enter(t, q, "a", 1)
	second := enter(t, q, "a", 1)
	if third := enter(t, q, "a", 3); !ready(second) || !ready(third) {
		t.Error("they still wait")
	}
}

func TestEstimates(t *testing.T) {
	now := time.Unix(1000, 0)
	q := New(Options{Slots: 2, Length: 100, Now: func() time.Time { return now }})
	a, b := enter(t, q, "a", 0), enter(t, q, "a", 0)
	waiting := enter(t, q, "a", 0)
	if got := waiting.Start().Sub(now); got != guess {
		t.Errorf("with nothing to go by: %v", got)
	}
	waiting.Leave()
	now = now.Add(10 * time.Second)
	a.Leave()
	b.Leave()
	first := enter(t, q, "a", 0)
	enter(t, q, "a", 0)
	var last *Ticket
	for range 4 {
		last = enter(t, q, "a", 0)
	}
	if got := last.Start().Sub(now); got != 20*time.Second {
		t.Errorf("fourth in line for two slots of 10 s: %v", got)
	}
	if got := enter(t, q, "b", 0).Start().Sub(now); got != 10*time.Second {
		t.Errorf("first of another: %v", got)
	}
	if got := first.Start().Sub(now); got != 10*time.Second {
		t.Errorf("one with a slot that waits for memory: %v", got)
	}
	if got := q.RetryAfter(); got != 5*time.Second {
		t.Errorf("relief %v", got)
	}
}

// A branch has its own slots. An owner's bound applies to both queues together, and a slot freed in one starts a ticket in the
// other.
func TestBranch(t *testing.T) {
	q := New(Options{Slots: 1, Length: 10})
	side := q.Branch(3, 10)
	first, waits := enter(t, q, "a", 2), enter(t, q, "b", 2)
	second := enter(t, side, "a", 2)
	if !ready(first) || !ready(second) || ready(waits) {
		t.Fatal("slots are not apart")
	}
	third := enter(t, side, "a", 2)
	if ready(third) {
		t.Error("over his bound")
	}
	if other := enter(t, side, "c", 0); other.Waited() {
		t.Error("another owner waits for one at its bound")
	}
	if running, waiting := q.Count("a"); running != 2 || waiting != 1 {
		t.Errorf("%d run, %d wait", running, waiting)
	}
	if q.Waiting() != 1 || side.Waiting() != 1 {
		t.Errorf("%d and %d wait", q.Waiting(), side.Waiting())
	}
	first.Leave()
	if !ready(third) || !ready(waits) {
		t.Error("a free slot was not given")
	}
	more := enter(t, side, "a", 3)
	if ready(more) {
		t.Error("a slot too many in the branch")
	}
	second.Leave()
	if !ready(more) {
		t.Error("no slot though one is free")
	}
}

// Raising a bound in one queue starts tickets that wait in another.
func TestBoundIsRaisedElsewhere(t *testing.T) {
	q := New(Options{Slots: 4, Length: 10})
	side := q.Branch(4, 0)
	enter(t, q, "a", 1)
	second := enter(t, q, "a", 1)
	if third := enter(t, side, "a", 3); !ready(second) || !ready(third) {
		t.Error("they still wait")
	}
	if _, err := side.Enter("a", 3); !errors.Is(err, ErrFull) {
		t.Errorf("over the bound, without a queue: %v", err)
	}
	if _, err := side.Enter("a", 4); err != nil {
		t.Errorf("raised: %v", err)
	}
}

// After any operations, no slot is given twice or lost, bounds hold, no owner that may run waits while a slot is free, and an
// owner's tickets keep their order. This applies to a branch, too.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.IntRange(0, 6).Draw(t, "length")
		q := New(Options{Slots: rapid.IntRange(1, 4).Draw(t, "slots"), Length: length})
		queues := []*Queue{q, q.Branch(rapid.IntRange(1, 4).Draw(t, "slots of a branch"), length), q.Branch(1, length)}
		bounds := map[string]int{"a": 0, "b": 1, "c": 2}
		var alive []*Ticket
		check := func() {
			running, waiting := map[string]int{}, map[string]int{}
			for _, each := range queues {
				waitsHere := map[string]int{}
				total, waits := 0, 0
				for _, ticket := range alive {
					name := ticket.owner.name
					switch {
					case ticket.queue != each:
					case !ready(ticket):
						waiting[name]++
						waitsHere[name]++
						waits++
					default:
						if waitsHere[name] > 0 {
							t.Fatalf("%s: a later ticket went first", name)
						}
						running[name]++
						total++
					}
				}
				if total > each.opts.Slots || waits > 2*length || waits != each.Waiting() {
					t.Fatalf("%d of %d slots, %d of %d wait (it says %d)", total, each.opts.Slots, waits, length, each.Waiting())
				}
			}
			for name, most := range bounds {
				if most > 0 && running[name] > most {
					t.Fatalf("%s runs %d, may %d", name, running[name], most)
				}
				for _, each := range queues {
					l := q.owners[name]
					if l != nil && l.line(each) != nil && each.taken < each.opts.Slots && (most == 0 || running[name] < most) {
						t.Fatalf("%s waits while a slot is free", name)
					}
				}
				if r, w := q.Count(name); r != running[name] || w != waiting[name] {
					t.Fatalf("%s: it counts %d and %d, there are %d and %d", name, r, w, running[name], waiting[name])
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"enter": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "owner")
				into := rapid.SampledFrom(queues).Draw(t, "queue")
				ticket, err := into.Enter(name, bounds[name])
				if err == nil {
					alive = append(alive, ticket)
				} else if into.Waiting() < length {
					t.Fatalf("refused with %d of %d waiting", into.Waiting(), length)
				}
			},
			"join": func(t *rapid.T) { // a parked ticket: it is in no queue before
				name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "owner")
				into := rapid.SampledFrom(queues).Draw(t, "queue")
				ticket := into.Park()
				if check(); ready(ticket) {
					t.Fatal("a parked ticket is ready")
				}
				if into.Waiting() >= 2*length {
					t.Skip("only as many may wait here")
				}
				if rapid.Bool().Draw(t, "leaves before") {
					ticket.Leave()
				}
				left := ticket.left
				if ticket.Join(name, bounds[name]); left && ready(ticket) {
					t.Fatal("a ticket that has left got a slot")
				}
				if !left {
					alive = append(alive, ticket)
				}
			},
			"leave": func(t *rapid.T) {
				if len(alive) == 0 {
					t.Skip("the queue is empty")
				}
				i := rapid.IntRange(0, len(alive)-1).Draw(t, "which")
				alive[i].Leave()
				alive = slices.Delete(alive, i, i+1)
			},
			"": func(*rapid.T) { check() },
		})
		for _, ticket := range alive {
			ticket.Leave()
		}
		if len(q.owners) != 0 || len(q.turns) != 0 || q.taken != 0 || q.waiting != 0 {
			t.Fatalf("left over: %+v", q)
		}
	})
}

func TestConcurrently(t *testing.T) {
	q := New(Options{Slots: 3, Length: 1000})
	var wg sync.WaitGroup
	var mu sync.Mutex
	most, now := 0, 0
	for i := range 300 {
		wg.Go(func() {
			ticket, err := q.Enter(fmt.Sprint(i%7), 2)
			if err != nil {
				t.Error(err)
				return
			}
			defer ticket.Leave()
			<-ticket.Ready()
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			mu.Lock()
			now--
			mu.Unlock()
		})
	}
	wg.Wait()
	if most > 3 || q.taken != 0 || len(q.owners) != 0 {
		t.Errorf("%d at once, %d taken, %d owners", most, q.taken, len(q.owners))
	}
}
