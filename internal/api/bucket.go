package api

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Buckets are token buckets by key. The number of keys is bounded: the least recently used key is evicted, and its next
// use starts with a full bucket. The zero value and nil impose no limit.
type Buckets struct {
	perMinute int
	maxKeys   int
	now       func() time.Time

	mu    sync.Mutex
	byKey map[string]*list.Element
	order *list.List // of *bucket, most recently used first
}

type bucket struct {
	key   string
	limit *rate.Limiter
}

// NewBuckets returns buckets of perMinute tokens that refill within a minute; 0 means no limit. maxKeys bounds the
// number of keys, 0 means 8192. A nil clock means time.Now.
func NewBuckets(perMinute, maxKeys int, now func() time.Time) *Buckets {
	if maxKeys <= 0 {
		maxKeys = 8192
	}
	if now == nil {
		now = time.Now
	}
	return &Buckets{perMinute: perMinute, maxKeys: maxKeys, now: now, byKey: map[string]*list.Element{}, order: list.New()}
}

// Take takes a token from key's bucket. If the bucket is empty, Take returns the time until the next token.
func (b *Buckets) Take(key string) (wait time.Duration) { return b.take(key, 1) }

// Peek is Take without taking a token.
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
	if b.order.Len() >= b.maxKeys {
		oldest := b.order.Remove(b.order.Back()).(*bucket)
		delete(b.byKey, oldest.key)
	}
	entry := &bucket{key: key, limit: rate.NewLimiter(rate.Limit(float64(b.perMinute)/60), b.perMinute)}
	b.byKey[key] = b.order.PushFront(entry)
	return entry.limit
}
