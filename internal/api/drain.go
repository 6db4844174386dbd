package api

import (
	"context"
	"sync"

	"github.com/belljar/belljar"
)

// Drain counts what a door has open, so that the door can close: it then refuses more, and waits for what there is to end. Make one
// with [NewDrain].
type Drain struct {
	mu      sync.Mutex
	closed  bool
	open    sync.WaitGroup
	closing context.Context
	close   context.CancelFunc
}

// NewDrain returns a drain with nothing open.
func NewDrain() *Drain {
	d := &Drain{}
	d.closing, d.close = context.WithCancel(context.Background())
	return d
}

// Enter counts a request or a connection until leave is called, once. The error is [belljar.CodeRuntimeUnavailable] if the door closes.
func (d *Drain) Enter() (leave func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "belljar is shutting down", Hint: "try again in a moment",
		}
	}
	d.open.Add(1)
	return d.open.Done, nil
}

// Closing returns a context that ends when Close is called.
func (d *Drain) Closing() context.Context { return d.closing }

// Close refuses what enters from now on, ends Closing and waits until everything has left. Further calls wait, too.
func (d *Drain) Close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.close()
	d.open.Wait()
}
