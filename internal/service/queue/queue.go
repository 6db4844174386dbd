// Package queue decides the order of work. There are few slots, owners take turns for them, and no owner has more than its share at
// the same time. The package starts nothing and never blocks: it hands out tickets, and a ticket reports its turn.
//
// Several queues may share their owners ([Queue.Branch]). Each queue has its own slots, and an owner's bound applies to its tickets
// in all of them together.
package queue

import (
	"errors"
	"math"
	"slices"
	"sync"
	"time"
)

// ErrFull means that no more tickets can wait.
var ErrFull = errors.New("queue is full")

// Options configures a queue.
type Options struct {
	Slots  int // tickets that hold a slot at the same time; 0 is no bound
	Length int // tickets that may wait; 0 means none
	// Now returns the time; nil is time.Now.
	Now func() time.Time
}

// Queue hands out slots. All methods are safe for concurrent use.
//
// Owners with waiting tickets take turns, one ticket each, so that one owner's hundred tickets do not delay another's first. An
// owner's own tickets keep their order. A full queue still accepts the first ticket of an owner that has none waiting while another
// has several, up to twice its length.
type Queue struct {
	opts Options

	*ownerSet         // its lock guards everything
	turns     []*line // owners with waiting tickets, next first
	waiting   int
	taken     int // slots in use
	held      average
}

// ownerSet is owners that one or more queues share.
type ownerSet struct {
	mu     sync.Mutex
	owners map[string]*owner // those with a ticket that waits or holds a slot
	open   chan struct{}     // closed: Ready returns it for a ticket that never waited
}

// owner takes turns with other owners.
type owner struct {
	name    string
	lines   []*line // queues where it has tickets waiting, in the order in which it began to wait
	running int     // tickets with a slot, in all queues
	most    int     // maximum of running; 0 is no bound
}

// line is the tickets of an owner that wait in one queue, next first.
type line struct {
	queue   *Queue
	owner   *owner
	tickets []*Ticket
}

// New returns an empty queue.
func New(opts Options) *Queue {
	all := &ownerSet{owners: map[string]*owner{}, open: make(chan struct{})}
	close(all.open)
	return all.queue(opts)
}

func (c *ownerSet) queue(opts Options) *Queue {
	if opts.Slots <= 0 {
		opts.Slots = math.MaxInt
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Queue{opts: opts, ownerSet: c}
}

// Branch returns an empty queue with its own slots and the same owners. It needs no closing: a queue without tickets is garbage
// collected.
func (q *Queue) Branch(slots, length int) *Queue {
	return q.ownerSet.queue(Options{Slots: slots, Length: length, Now: q.opts.Now})
}

// Enter takes a place for an owner, of whose tickets at most most hold a slot at the same time (0 is no bound; the latest value
// applies). The ticket may already hold a slot. [ErrFull] if it would have to wait and the queue is full.
func (q *Queue) Enter(name string, most int) (*Ticket, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.owner(name, most)
	t := &Ticket{queue: q, owner: o}
	if q.free(o) {
		t.ready = q.open
		q.give(t)
		return t, nil
	}
	if !q.takes(o.line(q)) {
		q.leave(o)
		return nil, ErrFull
	}
	t.ready = make(chan struct{})
	t.waited = true
	q.join(t)
	return t, nil
}

// Park returns a ticket without a place until [Ticket.Join].
func (q *Queue) Park() *Ticket {
	return &Ticket{queue: q, ready: make(chan struct{}), waited: true}
}

// owner returns the owner with a name, and sets the most slots for its tickets.
func (q *Queue) owner(name string, most int) *owner {
	o := q.owners[name]
	if o == nil {
		o = &owner{name: name}
		q.owners[name] = o
	}
	raised := o.most > 0 && (most <= 0 || most > o.most)
	if o.most = most; raised {
		o.dispatch()
	}
	return o
}

// free reports whether a slot is free for an owner's next ticket. If a ticket waits while a slot is free, its owner has reached the
// bound, and it blocks no other owner.
func (q *Queue) free(o *owner) bool {
	return o.line(q) == nil && q.taken < q.opts.Slots && o.mayRun()
}

// join queues a ticket after its owner's others.
func (q *Queue) join(t *Ticket) {
	o := t.owner
	l := o.line(q)
	if l == nil {
		l = &line{queue: q, owner: o}
		q.turns = append(q.turns, l)
		o.lines = append(o.lines, l)
	}
	l.tickets = append(l.tickets, t)
	q.waiting++
}

// Take takes a slot for an owner even if none is free: for work that already runs.
func (q *Queue) Take(name string, most int) *Ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.owners[name]
	if o == nil {
		o = &owner{name: name}
		q.owners[name] = o
	}
	o.most = most
	t := &Ticket{queue: q, owner: o, ready: q.open}
	q.give(t)
	return t
}

// line returns the owner's line in a queue; nil if it has none.
func (o *owner) line(q *Queue) *line {
	for _, l := range o.lines {
		if l.queue == q {
			return l
		}
	}
	return nil
}

// takes reports whether one more ticket may wait, of an owner with that line.
func (q *Queue) takes(l *line) bool {
	switch {
	case q.waiting < q.opts.Length:
		return true
	case l != nil || q.waiting >= 2*q.opts.Length:
		return false
	}
	for _, other := range q.turns {
		if len(other.tickets) > 1 {
			return true
		}
	}
	return false
}

func (o *owner) mayRun() bool { return o.most <= 0 || o.running < o.most }

// give gives a ticket a slot.
func (q *Queue) give(t *Ticket) {
	q.taken++
	t.owner.running++
	t.holds, t.since = true, q.opts.Now()
}

// dispatch gives free slots to the owners whose turn it is.
func (q *Queue) dispatch() {
	for q.taken < q.opts.Slots {
		i := q.next()
		if i < 0 {
			return
		}
		l := q.turns[i]
		t := l.tickets[0]
		l.tickets = l.tickets[1:]
		q.waiting--
		q.turns = slices.Delete(q.turns, i, i+1)
		if len(l.tickets) > 0 {
			q.turns = append(q.turns, l)
		} else {
			l.end()
		}
		q.give(t)
		close(t.ready)
	}
}

// dispatch starts an owner's tickets in every queue, after its bound was raised or a slot was released.
func (o *owner) dispatch() {
	for _, l := range slices.Clone(o.lines) {
		l.queue.dispatch()
	}
}

// end removes an empty line.
func (l *line) end() {
	is := func(other *line) bool { return other == l }
	l.owner.lines = slices.DeleteFunc(l.owner.lines, is)
	l.queue.turns = slices.DeleteFunc(l.queue.turns, is)
}

// next returns the index of the first owner that may run; -1 if none may.
func (q *Queue) next() int {
	return slices.IndexFunc(q.turns, func(l *line) bool { return l.owner.mayRun() })
}

// leave removes an owner that has neither tickets nor slots.
func (c *ownerSet) leave(o *owner) {
	if o.running == 0 && len(o.lines) == 0 {
		delete(c.owners, o.name)
	}
}

// Count returns how many of an owner's tickets hold a slot, and how many wait, here and in the queues with the same owners.
func (q *Queue) Count(name string) (running, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.owners[name]
	if o == nil {
		return 0, 0
	}
	for _, l := range o.lines {
		waiting += len(l.tickets)
	}
	return o.running, waiting
}

// RetryAfter is how long a full queue will probably stay full.
func (q *Queue) RetryAfter() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held.mean() / time.Duration(q.opts.Slots)
}
