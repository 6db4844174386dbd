package main

import (
	"context"

	"github.com/belljar/belljar"
)

// engine is what stands behind the commands: the service in this process, or a client of a server. Both are the same to
// them, but for what only this process can do.
type engine struct {
	belljar.Service
	Remote bool // a server's
	// Kill ends a run at once, with no grace: its sandbox is destroyed under it. A server's runs are left to the server.
	Kill func(ctx context.Context, id string) error
	// Close ends what is under way and waits until nothing is left of it.
	Close func() error

	// For bench only.
	Settle func()                                                 // waits until no run and no teardown is under way
	Weigh  func(ctx context.Context, n int) (*idleWeight, error)  // n idle sandboxes
	Gather func(ctx context.Context, n int) (*crowdResult, error) // n sandboxes at once
}
