package workspace

import (
	"context"
	"hash/fnv"
)

// locks are locks by key. Few keys share one.
type locks []chan struct{}

func newLocks() locks {
	l := make(locks, 64)
	for i := range l {
		l[i] = make(chan struct{}, 1)
	}
	return l
}

// lock waits for the lock of a key until ctx ends.
func (l locks) lock(ctx context.Context, key string) (unlock func(), err error) {
	h := fnv.New32a()
	h.Write([]byte(key))
	one := l[h.Sum32()%uint32(len(l))]
	select {
	case one <- struct{}{}:
		return func() { <-one }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
