package admission

import (
	"fmt"
	"sync"

	"github.com/belljar/belljar"
)

// Requests stay in memory until their runs end: the queues of many sessions must not exhaust it. A request's texts count
// if they are long; the queues bound the number of short ones.
const freeRequest = 16 << 10

// Budget bounds the bytes of the requests of unfinished runs.
type Budget struct {
	MaxPerUser, MaxTotal int64 // of one user, and of all users

	mu     sync.Mutex
	all    int64
	owners map[string]int64
}

// take adds a request of an owner if there is room for it. The only request always fits, whatever its size.
func (b *Budget) take(owner string, n int64) bool {
	if n == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.owners[owner]
	if own > 0 && own+n > b.MaxPerUser || b.all > 0 && b.all+n > b.MaxTotal {
		return false
	}
	if b.owners == nil {
		b.owners = map[string]int64{}
	}
	b.owners[owner] = own + n
	b.all += n
	return true
}

// drop removes a request that take has added.
func (b *Budget) drop(owner string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all -= n
	if b.owners[owner] -= n; b.owners[owner] <= 0 {
		delete(b.owners, owner)
	}
}

// Charge counts a request until release is called. release may be called twice, and is nil for a request that does not count.
func (b *Budget) Charge(owner string, req belljar.RunRequest) (release func(), err error) {
	n := weight(req)
	if !b.take(owner, n) {
		return nil, &belljar.Error{
			Code: belljar.CodeRateLimited, Message: "the requests of unfinished runs exceed the memory for them",
			Details: map[string]any{"retry_after_sec": 1, "request_bytes": n, "maximum_bytes": b.MaxPerUser},
			Hint:    fmt.Sprintf("send the same request again later; a request of at most %d KiB is always accepted", freeRequest>>10),
		}
	}
	if n == 0 {
		return nil, nil
	}
	return sync.OnceFunc(func() { b.drop(owner, n) }), nil
}

// weight is the size of a request beyond the free part.
func weight(req belljar.RunRequest) int64 {
	n := len(req.Code) + len(req.RunSpec.Stdin)
	if req.Shell != nil {
		n += len(req.Shell.Cmd)
	}
	if req.Git != nil {
		n += len(req.Git.Patch)
	}
	for _, arg := range req.Command {
		n += len(arg)
	}
	for name, value := range req.Env {
		n += len(name) + len(value)
	}
	for name, s := range req.Secrets {
		n += len(name) + len(s.Value)
	}
	for _, f := range req.Files {
		n += len(f.Content)
	}
	return max(0, int64(n)-freeRequest)
}
