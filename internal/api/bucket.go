package api

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Buckets are token buckets by key. At most a given number of keys is remembered; the one longest unused is forgotten
// first, and starts anew with a full bucket. The zero value and nil let everything through.
type Buckets struct {
	perMinute int
	most      int
	now       func() time.Time

	mu    sync.Mutex
	byKey map[string]*list.Element
	order *list.List // of *bucket, the latest used first
}

type bucket struct {
	key   string
	limit *rate.Limiter
}

// NewBuckets returns buckets that hold perMinute tokens and fill up in a minute; 0 means no limit. At most `most` keys
// are remembered, 0 is 8192. A nil clock is time.Now.
func NewBuckets(perMinute, most int, now func() time.Time) *Buckets {
	if most <= 0 {
		most = 8192
	}
	if now == nil {
		now = time.Now
	}
	return &Buckets{perMinute: perMinute, most: most, now: now, byKey: map[string]*list.Element{}, order: list.New()}
}

// Take takes a token from key's bucket. If there is none it takes nothing, and returns how long until there is one.
func (b *Buckets) Take(key string) (wait time.Duration) { return b.take(key, 1) }

// Peek is Take without taking.
func (b *Buckets) Peek(key string) (wait time.Duration) { return b.take(key, 0) }

func (b *Buckets) take(key string, n int) time.Duration {
	if b == nil || b.perMinute <= 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now, limit := b.now(), b.limiter(key)
	tokens := limit.TokensAt(now)
	if tokens >= 1 {
		limit.AllowN(now, n)
		return 0
	}
	return time.Duration((1 - tokens) / float64(limit.Limit()) * float64(time.Second))
}

func (b *Buckets) limiter(key string) *rate.Limiter {
	if at, ok := b.byKey[key]; ok {
		b.order.MoveToFront(at)
		return at.Value.(*bucket).limit
	}
	if b.order.Len() >= b.most {
		oldest := b.order.Remove(b.order.Back()).(*bucket)
		delete(b.byKey, oldest.key)
	}
	entry := &bucket{key: key, limit: rate.NewLimiter(rate.Limit(float64(b.perMinute)/60), b.perMinute)}
	b.byKey[key] = b.order.PushFront(entry)
	return entry.limit
}
