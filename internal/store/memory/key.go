package memory

import (
	"bytes"
	"context"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

type keys struct{ s *Store }

func nameOf(k *store.Key) keyName { return keyName{k.Endpoint, k.UserKey, k.Key} }

// activeKey returns the unexpired entry with the same name as key, or nil.
func (s *Store) activeKey(key *store.Key) *store.Key {
	if key == nil {
		return nil
	}
	e := s.keys[nameOf(key)]
	if e == nil || e.value.CreatedAt.Before(instant(key.NotBefore)) {
		return nil
	}
	return new(copiedKey(e.value))
}

// keep stores a key and replaces an expired one.
func (s *Store) keep(key *store.Key) {
	if key == nil {
		return
	}
	k := copiedKey(*key)
	k.CreatedAt, k.NotBefore = instant(k.CreatedAt), time.Time{}
	s.keys[nameOf(key)] = &entry[store.Key]{arrival: s.next(), value: k}
}

func copiedKey(k store.Key) store.Key {
	k.Response = bytes.Clone(k.Response)
	return k
}

// Get returns a key.
func (q keys) Get(ctx context.Context, endpoint, userKey, key string) (k store.Key, err error) {
	err = q.s.read(ctx, func() error {
		e := q.s.keys[keyName{endpoint, userKey, key}]
		if e == nil {
			return store.ErrNotFound
		}
		k = copiedKey(e.value)
		return nil
	})
	return k, err
}

// List returns one page, newest first.
func (q keys) List(ctx context.Context, query belljar.KeyQuery) (page []belljar.KeyEntry, err error) {
	err = q.s.read(ctx, func() error {
		var all []*entry[store.Key]
		for _, e := range q.s.keys {
			if matches(query.Endpoint, e.value.Endpoint) && matches(query.UserID, e.value.UserKey) {
				all = append(all, e)
			}
		}
		sortEntries(all, true, func(k *store.Key) time.Time { return k.CreatedAt })
		for _, e := range pageOf(all, query.Limit, query.Offset) {
			k := &e.value
			page = append(page, belljar.KeyEntry{Endpoint: k.Endpoint, UserKey: k.UserKey, Key: k.Key, ObjectID: k.ObjectID, CreatedAt: k.CreatedAt})
		}
		return nil
	})
	return page, err
}

// Delete deletes a key if it names objectID.
func (q keys) Delete(ctx context.Context, endpoint, userKey, key, objectID string) error {
	return q.s.write(ctx, func() error {
		name := keyName{endpoint, userKey, key}
		if e := q.s.keys[name]; e != nil && e.value.ObjectID == objectID {
			delete(q.s.keys, name)
		}
		return nil
	})
}

// DeleteBefore deletes the keys that were created before t.
func (q keys) DeleteBefore(ctx context.Context, t time.Time) (n int, err error) {
	err = q.s.write(ctx, func() error {
		for name, e := range q.s.keys {
			if e.value.CreatedAt.Before(instant(t)) {
				delete(q.s.keys, name)
				n++
			}
		}
		return nil
	})
	return n, err
}
