// Package queue decides who goes next. Slots are few, owners take turns for them, and none of them has more than his
// share at once. It starts nothing and waits for nothing: it hands out tickets, and a ticket tells when its turn has
// come.
package queue

import (
	"errors"
	"math"
	"sync"
	"time"
)

// ErrFull says that no more can wait.
var ErrFull = errors.New("queue is full")

// Options is what a queue is made of.
type Options struct {
	Slots  int // how many go at once; 0 is no bound
	Length int // how many wait; 0 means that nobody does
	// Now tells the time; nil is time.Now.
	Now func() time.Time
}

// Queue hands out slots. All methods are safe for concurrent use.
//
// Owners with tickets waiting take turns, one ticket each, so that one owner's hundred do not delay another's first; an
// owner's own tickets keep their order. A full queue still takes the first ticket of an owner who has none waiting
// while another has several, up to twice its length.
type Queue struct {
	opts Options

	mu      sync.Mutex
	owners  map[string]*owner // those with a ticket that waits or holds a slot
	turns   []*owner          // those with tickets waiting, next first
	waiting int
	taken   int // slots
	held    average
	closed  chan struct{} // what Ready returns for a ticket that never waited
}

// owner is whose turn it can be.
type owner struct {
	name    string
	line    []*Ticket // waiting, next first
	running int
	most    int // tickets with a slot at once; 0 is no bound
}

// New returns an empty queue.
func New(opts Options) *Queue {
	if opts.Slots <= 0 {
		opts.Slots = math.MaxInt
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	q := &Queue{opts: opts, owners: map[string]*owner{}, closed: make(chan struct{})}
	close(q.closed)
	return q
}

// Enter takes a place for an owner, of whose tickets at most most hold a slot at once (0 is no bound; the latest word
// counts). The ticket may hold a slot already. [ErrFull] if it would have to wait and too many do.
func (q *Queue) Enter(name string, most int) (*Ticket, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.owners[name]
	if o == nil {
		o = &owner{name: name}
		q.owners[name] = o
	}
	o.most = most
	t := &Ticket{queue: q, owner: o}
	if len(o.line) == 0 && q.taken < q.opts.Slots && o.mayRun() {
		// Whoever waits while a slot is free is over his own bound and not before anybody.
		t.ready = q.closed
		q.give(t)
		return t, nil
	}
	if !q.takes(o) {
		q.leave(o)
		return nil, ErrFull
	}
	t.ready = make(chan struct{})
	t.waited = true
	if len(o.line) == 0 {
		q.turns = append(q.turns, o)
	}
	o.line = append(o.line, t)
	q.waiting++
	q.deal() // the owner's bound may have been raised
	return t, nil
}

// takes reports whether one more ticket of o may wait.
func (q *Queue) takes(o *owner) bool {
	switch {
	case q.waiting < q.opts.Length:
		return true
	case len(o.line) > 0 || q.waiting >= 2*q.opts.Length:
		return false
	}
	for _, other := range q.turns {
		if len(other.line) > 1 {
			return true
		}
	}
	return false
}

func (o *owner) mayRun() bool { return o.most <= 0 || o.running < o.most }

// give lets a ticket have a slot.
func (q *Queue) give(t *Ticket) {
	q.taken++
	t.owner.running++
	t.holds, t.since = true, q.opts.Now()
}

// deal gives free slots to those whose turn it is.
func (q *Queue) deal() {
	for q.taken < q.opts.Slots {
		i := q.next()
		if i < 0 {
			return
		}
		o := q.turns[i]
		t := o.line[0]
		o.line = o.line[1:]
		q.waiting--
		q.turns = append(q.turns[:i], q.turns[i+1:]...)
		if len(o.line) > 0 {
			q.turns = append(q.turns, o)
		}
		q.give(t)
		close(t.ready)
	}
}

// next is whose turn it is among those who may; -1 if nobody may.
func (q *Queue) next() int {
	for i, o := range q.turns {
		if o.mayRun() {
			return i
		}
	}
	return -1
}

// leave forgets an owner who has nothing here any more.
func (q *Queue) leave(o *owner) {
	if o.running == 0 && len(o.line) == 0 {
		delete(q.owners, o.name)
	}
}

// Count is how many of an owner's tickets hold a slot, and how many wait.
func (q *Queue) Count(name string) (running, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if o := q.owners[name]; o != nil {
		return o.running, len(o.line)
	}
	return 0, 0
}

// Waiting is how many tickets wait.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// Relief is for how long a full queue will probably stay full.
func (q *Queue) Relief() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held.mean() / time.Duration(q.opts.Slots)
}
