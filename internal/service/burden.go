package service

import (
	"fmt"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
)

// Requests are in memory until their runs end: what waits in the queues of many sessions must not take all of it. A
// request's texts count when they are long; how many short ones there are the queues bound.
const lightRequest = 16 << 10

// burden is how many bytes of requests the runs under way have.
type burden struct {
	mostOfOne, mostOfAll int64 // of one user's, and of all

	mu     sync.Mutex
	all    int64
	owners map[string]int64
}

// take adds a request of an owner's, if there is room for it. What is alone has room whatever its size.
func (b *burden) take(owner string, n int64) bool {
	if n == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.owners[owner]
	if own > 0 && own+n > b.mostOfOne || b.all > 0 && b.all+n > b.mostOfAll {
		return false
	}
	if b.owners == nil {
		b.owners = map[string]int64{}
	}
	b.owners[owner] = own + n
	b.all += n
	return true
}

// drop takes away what take has added.
func (b *burden) drop(owner string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all -= n
	if b.owners[owner] -= n; b.owners[owner] <= 0 {
		delete(b.owners, owner)
	}
}

// shoulder counts a run's request until [run.unload].
func (s *Service) shoulder(r *run) error {
	n := weight(r.plan.request)
	if !s.burden.take(r.owner, n) {
		s.count(event.QueueFull, r.state.Runtime, "requests_too_large", 1)
		return &belljar.Error{
			Code: belljar.CodeRateLimited, Message: "the requests of runs that have yet to end are too large together",
			Details: map[string]any{"retry_after_sec": 1, "request_bytes": n, "maximum_bytes": s.burden.mostOfOne},
			Hint:    fmt.Sprintf("send the same request again later; a request that needs no more than %d KiB is always taken", lightRequest>>10),
		}
	}
	if n == 0 {
		return nil
	}
	r.borne = sync.OnceFunc(func() { s.burden.drop(r.owner, n) })
	return nil
}

// unload says that the run's request counts no more. It may be called twice.
func (r *run) unload() {
	if r.borne != nil {
		r.borne()
	}
}

// weight is what a request takes beyond what is free.
func weight(req belljar.RunRequest) int64 {
	n := len(req.Code) + len(req.RunSpec.Stdin)
	if req.Shell != nil {
		n += len(req.Shell.Cmd)
	}
	for _, arg := range req.Command {
		n += len(arg)
	}
	for name, value := range req.Env {
		n += len(name) + len(value)
	}
	for _, f := range req.Files {
		n += len(f.Content)
	}
	return max(0, int64(n)-lightRequest)
}
