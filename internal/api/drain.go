package api

import (
	"context"
	"sync"

	"github.com/belljar/belljar"
)

// Drain counts the requests and connections that a door has open. Closing it refuses new ones and waits for the open ones to end. Make
// one with [NewDrain].
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

// Enter counts a request or a connection until leave is called, once. The error is [belljar.CodeRuntimeUnavailable] after Close was
// called.
func (d *Drain) Enter() (leave func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "belljar is shutting down", Details: map[string]any{"retry_after_sec": 5},
			Hint: "try again in a moment",
		}
	}
	d.open.Add(1)
	return d.open.Done, nil
}

// Closing returns a context that ends when Close is called.
func (d *Drain) Closing() context.Context { return d.closing }

// Close refuses new requests and connections, ends Closing and waits until all open ones have left. Further calls wait, too.
func (d *Drain) Close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.close()
	d.open.Wait()
}
