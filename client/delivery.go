package client

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
)

// delivery tracks whether the server may have processed a try of a request whose response was lost.
type delivery struct {
	lost  atomic.Bool
	asked atomic.Bool // the current try is traced; a transport of the caller may not do so
	wrote atomic.Bool // it wrote the headers
}

// trace returns the context of the next try. Package http repeats a try itself if the server has closed a connection that was
// used before.
func (d *delivery) trace(ctx context.Context) context.Context {
	d.asked.Store(false)
	d.wrote.Store(false)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			d.asked.Store(true)
			if d.wrote.Swap(false) {
				d.lost.Store(true)
			}
		},
		WroteHeaders: func() { d.wrote.Store(true) },
	})
}

// failed records that the current try failed with err.
func (d *delivery) failed(err error) {
	if lost(err) && (d.wrote.Load() || !d.asked.Load()) {
		d.lost.Store(true)
	}
}
