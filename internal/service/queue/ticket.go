package queue

import (
	"slices"
	"time"
)

// Ticket is a place in the queue, later a slot.
type Ticket struct {
	queue  *Queue
	owner  *owner // nil while it is parked
	ready  chan struct{}
	waited bool

	// The queue's lock guards the following fields.
	holds bool
	left  bool
	since time.Time // when it got its slot
}

// Ready is closed when the ticket holds a slot.
func (t *Ticket) Ready() <-chan struct{} { return t.ready }

// Waited reports whether the ticket had to wait for its slot.
func (t *Ticket) Waited() bool { return t.waited }

// Join takes a place for an owner with a parked ticket, as [Queue.Enter] does, but even if the queue is full: the caller of Park
// bounds the number of parked tickets. After Leave, Join does nothing.
func (t *Ticket) Join(name string, most int) {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.left || t.owner != nil {
		return
	}
	t.owner = q.owner(name, most)
	if q.free(t.owner) {
		q.give(t)
		close(t.ready)
		return
	}
	q.join(t)
}

// Leave releases the ticket's place or slot. It may be called twice.
func (t *Ticket) Leave() {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.left {
		return
	}
	t.left = true
	if t.owner == nil {
		return
	}
	if t.holds {
		q.taken--
		t.owner.running--
		q.held.add(q.opts.Now().Sub(t.since))
	} else if l := t.owner.line(q); l != nil {
		l.tickets = slices.DeleteFunc(l.tickets, func(other *Ticket) bool { return other == t })
		q.waiting--
		if len(l.tickets) == 0 {
			l.end()
		}
	}
	q.dispatch()
	t.owner.dispatch()
	q.leave(t.owner)
}

// Start estimates when the work of a ticket that waits can start, from the recent durations of slots. A ticket with a slot waits for
// something else, such as memory: another's slot, too, must become free.
func (t *Ticket) Start() time.Time {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	rounds := 1
	if !t.holds {
		rounds += t.ahead() / q.opts.Slots
	}
	return q.opts.Now().Add(time.Duration(rounds) * q.held.mean())
}

// ahead returns how many tickets of its queue get a slot before this one, if no more come.
func (t *Ticket) ahead() int {
	if t.owner == nil {
		return 0
	}
	own := t.owner.line(t.queue)
	if own == nil {
		return 0
	}
	n := slices.Index(own.tickets, t)
	turn := n + 1
	before := true
	for _, l := range t.queue.turns {
		switch {
		case l == own:
			before = false
		case before:
			n += min(len(l.tickets), turn)
		default:
			n += min(len(l.tickets), turn-1)
		}
	}
	return n
}

// average is a moving average of durations.
type average struct{ of time.Duration }

// guess is the assumed duration of a slot before the first measurement.
const guess = time.Second

// add adds d with a weight of one fifth.
func (a *average) add(d time.Duration) {
	if a.of == 0 {
		a.of = max(d, 1)
		return
	}
	a.of = max(a.of+(d-a.of)/5, 1)
}

func (a *average) mean() time.Duration {
	if a.of == 0 {
		return guess
	}
	return a.of
}
