package workspace

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"
)

const (
	gitFresh  = 500 * time.Millisecond // how long an answer of git is reused
	gitAtOnce = 8                      // requests for git of one user, until their answers are encoded
	gitWait   = 20 * time.Second       // how long a further one waits
)

// flights shares answers of git: those in progress and, for gitFresh, those that are done.
type flights struct {
	mu    sync.Mutex
	byKey map[string]*flight
}

// flight is one answer.
type flight struct {
	clients int                // that have not left
	stop    context.CancelFunc // ends the work
	done    chan struct{}      // closed when v and err are set
	v       any
	err     error
}

// share returns the answer of do, or that of another client with the same key. It does not reuse errors. The first client does the work,
// whose context ends when the last client has left.
func (f *flights) share(ctx context.Context, key string, do func(context.Context) (any, error)) (any, error) {
	f.mu.Lock()
	one := f.byKey[key]
	first := one == nil
	var working context.Context
	if first {
		one = &flight{done: make(chan struct{}), err: errors.New("workspace: an answer of git is missing")} // after a panic
		working, one.stop = context.WithCancel(context.WithoutCancel(ctx))
		if f.byKey == nil {
			f.byKey = map[string]*flight{}
		}
		f.byKey[key] = one
	}
	one.clients++
	f.mu.Unlock()
	if first {
		defer one.stop()
		defer context.AfterFunc(ctx, func() { f.leave(key, one) })()
		f.work(working, key, one, do)
		return one.v, one.err
	}
	select {
	case <-one.done:
		return one.v, one.err
	case <-ctx.Done():
		f.leave(key, one)
		return nil, ctx.Err()
	}
}

// work does the work of a flight. Its answer is kept while it is fresh.
func (f *flights) work(ctx context.Context, key string, one *flight, do func(context.Context) (any, error)) {
	end := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.remove(key, one)
	}
	defer func() {
		close(one.done)
		if one.err != nil {
			end()
		} else {
			time.AfterFunc(gitFresh, end)
		}
	}()
	one.v, one.err = do(ctx)
}

// leave counts a client that has left. A flight without clients ends.
func (f *flights) leave(key string, one *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one.clients--; one.clients == 0 {
		f.remove(key, one)
		one.stop()
	}
}

// remove removes a flight, unless another has replaced it. The caller holds the lock.
func (f *flights) remove(key string, one *flight) {
	if f.byKey[key] == one {
		delete(f.byKey, key)
	}
}

// forget removes the answers about a workspace after its files changed.
func (f *flights) forget(session string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.byKey, func(key string, _ *flight) bool { return strings.Contains(key, "\x00"+session+"\x00") })
}

// shared returns the answer of do, shared by all requests of one workspace. do continues if its first client leaves and others wait. A few of
// a user's requests hold an answer at the same time: each can take much memory.
func (c *call) shared(what string, do func(ctx context.Context) (any, error)) (any, error) {
	ctx := c.r.Context()
	if err := reserve(c, c.door.gits, 1); err != nil {
		return nil, err
	}
	return c.door.git.share(ctx, c.caller.ID+"\x00"+c.Session+"\x00"+what, do)
}
