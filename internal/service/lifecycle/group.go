// Package lifecycle tracks the running work of a service, and shuts it down.
package lifecycle

import (
	"context"
	"sync"
)

// Group counts running work. Closing it has three steps: [Group.Refuse] admits no new work, [Group.Cancel] cancels the running
// work, and [Group.Wait] waits for its end. The zero value is open.
type Group struct {
	work sync.WaitGroup

	mu      sync.Mutex
	refused bool
	closing context.Context
	cancel  context.CancelFunc
}

// Enter counts a piece of work until [Group.Done], unless new work is refused.
func (g *Group) Enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.refused {
		g.work.Add(1)
	}
	return !g.refused
}

// Add counts a piece of work until [Group.Done], even when new work is refused: maintenance continues until the group is
// closed. The caller must ensure that [Group.Wait] comes later.
func (g *Group) Add() { g.work.Add(1) }

// Done ends a piece of work.
func (g *Group) Done() { g.work.Done() }

// Do calls f, which may start more work with [Group.Go], unless new work is refused.
func (g *Group) Do(f func()) bool {
	if !g.Enter() {
		return false
	}
	defer g.Done()
	f()
	return true
}

// Go runs a part of running work in a goroutine of its own.
func (g *Group) Go(f func()) { g.work.Go(f) }

// Refuse admits no new work from now on.
func (g *Group) Refuse() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused = true
}

// Refused reports whether new work is refused.
func (g *Group) Refused() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refused
}

// Closing ends when [Group.Cancel] is called.
func (g *Group) Closing() context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing == nil {
		g.closing, g.cancel = context.WithCancel(context.Background())
	}
	return g.closing
}

// Cancel cancels the running work.
func (g *Group) Cancel() {
	g.Closing()
	g.cancel()
}

// Wait waits until no work is running.
func (g *Group) Wait() { g.work.Wait() }
