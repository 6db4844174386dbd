package admission

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/belljar/belljar"
)

// Requests stay in memory until their runs end: the queues of many sessions must not exhaust it. Large requests count; the
// queues bound the number of small ones.
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
	b.add(owner, n)
	return true
}

// add adds a request of an owner. The lock is held.
func (b *Budget) add(owner string, n int64) {
	if b.owners == nil {
		b.owners = map[string]int64{}
	}
	b.owners[owner] += n
	b.all += n
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
func (b *Budget) Charge(owner string, req *belljar.RunSpec) (release func(), err error) {
	n := weight(req)
	if !b.take(owner, n) {
		return nil, &belljar.Error{
			Code: belljar.CodeRateLimited, Message: "the requests of unfinished runs exceed the memory for them",
			Details: map[string]any{"retry_after_sec": 1, "request_bytes": n, "maximum_bytes": b.MaxPerUser},
			Hint:    fmt.Sprintf("send the same request again later; a request that takes at most %d KiB of memory is always accepted", freeRequest>>10),
		}
	}
	if n == 0 {
		return nil, nil
	}
	return sync.OnceFunc(func() { b.drop(owner, n) }), nil
}

// Recharge counts a request that was accepted before a restart, even if it exceeds the budget.
func (b *Budget) Recharge(owner string, req *belljar.RunSpec) (release func()) {
	n := weight(req)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(owner, n)
	return sync.OnceFunc(func() { b.drop(owner, n) })
}

// weight is the size of a request in memory beyond the free part.
func weight(req *belljar.RunSpec) int64 { return max(0, size(reflect.ValueOf(req))-freeRequest) }

// size returns the bytes that a value refers to. It reads all fields, also later ones: a caller can make any text, list or map long.
func size(v reflect.Value) (n int64) {
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Pointer:
		if !v.IsNil() {
			n = size(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += size(v.Field(i))
		}
	case reflect.Slice:
		elem := v.Type().Elem()
		n = int64(v.Len()) * int64(elem.Size())
		for i := 0; elem.Kind() != reflect.Uint8 && i < v.Len(); i++ {
			n += size(v.Index(i))
		}
	case reflect.Map:
		n = int64(v.Len()) * int64(v.Type().Key().Size()+v.Type().Elem().Size())
		for i := v.MapRange(); i.Next(); {
			n += size(i.Key()) + size(i.Value())
		}
	}
	return n
}
