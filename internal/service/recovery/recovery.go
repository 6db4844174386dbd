// Package recovery lets the parts of the service continue the work of a previous process.
//
// Each part reattaches to work that still runs, and records the rest as lost. A sandbox without a record is an orphan: it is
// removed after all parts have recovered.
package recovery

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/belljar/belljar"
)

// Parallelism is how many sandboxes are reattached to, or removed, at the same time.
const Parallelism = 8

// Timeout bounds reattaching to one sandbox, or to all commands in it. It is long enough for a busy machine: a sandbox that does
// not respond in time is lost.
const Timeout = time.Minute

// A call of [ForEachAgent] counts towards Parallelism for some time only, and at most some calls are in progress: a busy engine would
// respond to none of too many in time.
const (
	slow     = time.Second
	mostSlow = 512
)

// Part is a part of the service that continues the work of a previous process.
type Part interface {
	// Recover reattaches to running work and records the rest as lost. It is called once, before the first request. A failure
	// for one record does not prevent the recovery of others. An error comes only from the store or from ctx.
	Recover(ctx context.Context) error
}

// Cleaner is a part that may find orphans.
type Cleaner interface {
	// RemoveOrphans removes, in the background, the sandboxes that no part has recovered.
	RemoveOrphans(ctx context.Context)
}

// Run recovers the parts in order, and then lets each [Cleaner] remove its orphans.
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

// Caller returns the caller that acts for a user during the recovery, as an operator if the request on record was one's.
func Caller(user string, operator bool) belljar.Caller {
	caller := belljar.Caller{ID: user, Role: belljar.RoleUser, Source: "recovery"}
	if operator {
		caller.Role = belljar.RoleAdmin
	}
	return caller
}

// ForEach calls do with each element of a list, [Parallelism] at a time, and returns after all calls.
func ForEach[T any](list []T, do func(T)) { forEach(list, math.MaxInt64, do) }

// ForEachAgent is ForEach for calls that wait for agents. A slow call does not delay the others: it only waits, and a user can have many
// sandboxes whose agents were taken over by programs and do not respond.
func ForEachAgent[T any](list []T, do func(T)) { forEach(list, slow, do) }

// ForEachIn is ForEachAgent for a list of which several elements can be in the same sandbox. The ctx of its calls ends with the first call of
// silent: an agent that does not respond to one does not respond to the others.
func ForEachIn[T any](ctx context.Context, list []T, sandbox func(T) string, do func(ctx context.Context, each T, silent func())) {
	ForEachAgent(bySandbox(list, sandbox), func(group []T) {
		ctx, silent := context.WithCancel(ctx)
		defer silent()
		ForEachAgent(group, func(each T) { do(ctx, each, silent) })
	})
}

// bySandbox divides a list by the sandbox of each element, and keeps its order.
func bySandbox[T any](list []T, sandbox func(T) string) (groups [][]T) {
	at := map[string]int{}
	for _, each := range list {
		i, known := at[sandbox(each)]
		if !known {
			i = len(groups)
			at[sandbox(each)], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], each)
	}
	return groups
}

// forEach calls do with each element of a list. At most [Parallelism] calls are younger than counts.
func forEach[T any](list []T, counts time.Duration, do func(T)) {
	var all sync.WaitGroup
	free, room := make(chan struct{}, Parallelism), make(chan struct{}, mostSlow)
	for _, each := range list {
		room <- struct{}{}
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			release := sync.OnceFunc(func() { <-free })
			defer release()
			defer time.AfterFunc(counts, release).Stop()
			do(each)
		})
	}
	all.Wait()
}
