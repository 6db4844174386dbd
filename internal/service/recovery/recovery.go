// Package recovery is how the parts of the service continue what a former process left.
//
// Each part reattaches to what still runs, and puts on record as lost what does not. What no record claims is an orphan: it is
// removed when all parts have recovered.
package recovery

import (
	"context"
	"sync"
	"time"

	"github.com/belljar/belljar"
)

// Parallelism is how many sandboxes are reattached to, or removed, at a time.
const Parallelism = 8

// Timeout bounds reattaching to one sandbox, or to a command in it. It is long enough for a busy machine: a sandbox that does
// not answer in time is lost.
const Timeout = time.Minute

// Part is a part of the service that continues what a former process left.
type Part interface {
	// Recover reattaches to what still runs and records the rest as lost. It is called once, before the first request. What
	// fails of one record keeps no other from being recovered; an error is one of the store, or that of ctx.
	Recover(ctx context.Context) error
}

// Cleaner is a part that may find orphans.
type Cleaner interface {
	// RemoveOrphans removes, in the background, what no part has recovered.
	RemoveOrphans(ctx context.Context)
}

// Run recovers the parts in order, and then has those that can remove their orphans.
func Run(ctx context.Context, parts ...Part) error {
	for _, p := range parts {
		if err := p.Recover(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	for _, p := range parts {
		if c, ok := p.(Cleaner); ok {
			c.RemoveOrphans(ctx)
		}
	}
	return nil
}

// Caller is who acts for a user while what the user left is recovered.
func Caller(user string) belljar.Caller {
	return belljar.Caller{ID: user, Role: belljar.RoleUser, Source: "recovery"}
}

// ForEach calls do with each of a list, [Parallelism] at a time, and returns when all calls have.
func ForEach[T any](list []T, do func(T)) {
	var all sync.WaitGroup
	free := make(chan struct{}, Parallelism)
	for _, each := range list {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			do(each)
		})
	}
	all.Wait()
}
