package pool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/belljar/belljar/internal/runtime"
)

// Limits of making sandboxes in advance.
const (
	birthTime  = time.Minute // limit for one birth, on a busy machine
	pauseFirst = time.Second // after a failure; doubled after each further one
	pauseMost  = time.Minute
)

// Warm keeps the kinds of these specs ready, even without requests. It does not wait for them.
func (p *Pool) Warm(specs ...runtime.Spec) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range specs {
		if s.Workspace.ID != "" {
			continue
		}
		if k := p.learn(p.claimer.Blank(s)); k != nil {
			k.warm = true
		}
	}
	p.asked = time.Now()
	p.notify()
}

// take returns a ready sandbox for a spec, nil if there is none, and the spec to claim it as. It counts the request for the kind.
func (p *Pool) take(spec runtime.Spec) (e *entry, as runtime.Spec) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, spec
	}
	p.asked = time.Now()
	p.notify()
	k := p.learn(p.claimer.Blank(spec))
	if k != nil {
		k.used = p.asked
		k.asked++
	}
	e = k.first()
	if e == nil && spec.Park != nil { // a sandbox without a parked interpreter is better than none
		spec.Park = nil
		e = p.kinds[keyOf(p.claimer.Blank(spec))].first()
	}
	if e == nil {
		p.stats.Misses++
	}
	return e, spec
}

// claimed counts the outcome of a claim.
func (p *Pool) claimed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.stats.Hits++
		return
	}
	p.stats.Misses++
	p.stats.Drops[dropUnusable]++
}

// rest starts the pause after a Create, in which the pool makes no sandboxes.
func (p *Pool) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = time.Now()
}

// notify wakes the keeper. The caller holds mu.
func (p *Pool) notify() {
	if !p.asleep {
		return // it will look without a notification
	}
	p.asleep = false
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// task is the keeper's next work: destroy, then make, or wait; 0 waits until notified.
type task struct {
	destroy []*entry
	make    *kind
	wait    time.Duration
}

// keep does the pool's work until it is closed.
func (p *Pool) keep() {
	for {
		c := p.next(time.Now())
		for _, e := range c.destroy {
			p.destroy(e)
		}
		if c.make != nil {
			p.fill(c.make)
			continue
		}
		var tick <-chan time.Time
		if c.wait > 0 {
			tick = time.After(c.wait)
		}
		select {
		case <-p.ctx.Done():
			return
		case <-p.wake:
		case <-tick:
		}
	}
}

// next returns the next task.
func (p *Pool) next(now time.Time) (c task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return c
	}
	if begin := p.asked.Add(p.opts.QuietTime); now.Before(begin) {
		return task{wait: begin.Sub(now)} // any work would delay a caller
	}
	p.forget(now)
	room := p.opts.Max
	var due time.Time // when something must be done without a request
	soonest := func(t time.Time) {
		if due.IsZero() || t.Before(due) {
			due = t
		}
	}
	for _, k := range p.ranked() {
		want := min(p.opts.Size, room)
		if k.tries > 0 { // it may always fail, and takes no more room from others than a try needs
			want = min(want, len(k.ready)+1)
		}
		if now.Before(k.pause) {
			want = min(want, len(k.ready))
			soonest(k.pause)
		}
		room -= want
		for len(k.ready) > 0 {
			e, why := k.ready[0], dropAged
			if len(k.ready) > want {
				why = dropDisplaced
			} else if ends := e.born.Add(p.opts.MaxAge); now.Before(ends) {
				soonest(ends)
				break
			}
			k.remove(e)
			e.free()
			p.stats.Drops[why]++
			c.destroy = append(c.destroy, e)
		}
		if !k.warm {
			soonest(k.used.Add(p.opts.Idle))
		}
		if c.make == nil && len(k.ready) < want {
			c.make = k
		}
	}
	for _, k := range p.kinds {
		if !k.worth() {
			soonest(k.used.Add(p.opts.Idle))
		}
	}
	if c.make != nil && now.Before(p.pause) {
		c.make = nil
		soonest(p.pause)
	}
	p.asleep = c.make == nil
	if !due.IsZero() {
		c.wait = max(due.Sub(now), time.Microsecond)
	}
	return c
}

// forget drops the kinds without recent requests. Their sandboxes are then surplus and are destroyed. The caller holds
// mu.
func (p *Pool) forget(now time.Time) {
	for key, k := range p.kinds {
		if k.warm || now.Before(k.used.Add(p.opts.Idle)) {
			continue
		}
		for _, e := range k.ready {
			e.free()
			p.stats.Drops[dropIdle]++
			p.work.Go(func() { p.destroy(e) })
		}
		k.ready = nil
		delete(p.kinds, key)
	}
}

// fill makes a sandbox of a kind, and waits for its agent's answer: a ready sandbox must have started.
func (p *Pool) fill(k *kind) {
	p.mu.Lock()
	p.made++
	e := &entry{id: p.prefix + strconv.FormatUint(p.made, 10), kind: k, born: time.Now()}
	p.mu.Unlock()
	spec := k.blank
	spec.ID, spec.Lease = e.id, p.opts.Lease
	ctx, cancel := context.WithTimeout(p.ctx, birthTime)
	defer cancel()
	err := here(spec)
	if err == nil {
		e.box, err = p.Runtime.Create(ctx, spec)
	}
	if err == nil {
		if err = ping(ctx, e.box); err != nil {
			p.destroy(e)
		}
	}
	if err == nil && spec.Park != nil && !e.born.Before(k.plain) {
		if failed := park(ctx, e.box, spec.Park); failed != nil {
			p.destroy(e) // what the kernel killed in it for lack of memory would count as its claimer's
			p.unparked(k, failed)
			return
		}
	}
	if p.ctx.Err() != nil && err != nil {
		return // the pool is being closed
	}
	if errors.Is(err, runtime.ErrNoImage) { // the image was removed: no more of this kind can be made, but others can
		p.mu.Lock()
		p.stats.Failures++
		k.warm, k.asked = false, 0
		p.mu.Unlock()
		return
	}
	if err != nil {
		p.mu.Lock()
		first := k.tries == 0
		p.failed(k)
		p.mu.Unlock()
		if first {
			p.log.Warn("cannot create a ready sandbox; retrying", "err", err)
		}
		return
	}
	if !p.put(e) {
		p.destroy(e)
	}
}

// here returns [runtime.ErrNoImage] if a layer, or the folder that a workspace begins with, was removed: sandboxes that are made in
// advance do not hold these.
func here(spec runtime.Spec) error {
	layers := spec.Root.Layers
	if dir := spec.Workspace.Below.Dir; dir != "" {
		layers = append(slices.Clone(layers), runtime.Layer{Name: "below", Dir: dir})
	}
	for _, l := range layers {
		if _, err := os.Stat(l.Dir); err != nil {
			return fmt.Errorf("layer %s: %w", l.Name, runtime.ErrNoImage)
		}
	}
	return nil
}

// failed pauses a kind after a failed birth. The caller holds mu.
func (p *Pool) failed(k *kind) {
	p.stats.Failures++
	k.pause = time.Now().Add(min(pauseFirst<<min(k.tries, 16), pauseMost))
	k.tries++
}

// unparked makes the next sandboxes of a kind without an interpreter, after one did not start. They can still run programs.
func (p *Pool) unparked(k *kind, err error) {
	if p.ctx.Err() != nil {
		return // the pool is being closed
	}
	p.mu.Lock()
	p.stats.Failures++
	p.mu.Unlock()
	k.plain = time.Now().Add(p.opts.MaxAge)
	p.log.Warn("cannot start an interpreter in a ready sandbox; making such sandboxes without one for now",
		"image", k.blank.Root.Ref, "command", k.blank.Park.Argv, "preload", k.blank.Park.Preload, "for", p.opts.MaxAge, "err", err)
}

// put adds a ready entry; false if it is no longer needed.
func (p *Pool) put(e *entry) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.kind.tries = 0
	p.clear()
	p.stats.Births++
	p.stats.BirthTime += time.Since(e.born)
	if p.closed || p.kinds[keyOf(e.kind.blank)] != e.kind {
		return false
	}
	ctx, free := context.WithCancel(p.ctx)
	e.free = free
	e.kind.ready = append(e.kind.ready, e)
	p.work.Go(func() { p.watch(ctx, e) })
	return true
}
