package image

import (
	"context"
	"sync"
)

// uses are the images that this process holds: one lock each, whatever the number of users.
type uses struct {
	mu sync.Mutex
	of map[string]*use // by the lock's file
}

type use struct {
	lock  *lock
	users int
}

// Use keeps the image of a digest from being removed until end is called, as a sandbox does. It does nothing for a missing image.
func (s *Store) Use(digest string) (end func()) {
	if digest == "" || s.o.Path == "" {
		return func() {}
	}
	r, err := s.index.known(digest)
	if err != nil || r == nil {
		return func() {}
	}
	return s.uses.begin(s.index.root(r).Lock)
}

func (u *uses) begin(path string) (end func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	of := u.of[path]
	if of == nil {
		l, err := acquire(context.Background(), path, false) // a check whether it is held, and a removal, hold it for a moment
		if err != nil {
			return func() {}
		}
		if u.of == nil {
			u.of = map[string]*use{}
		}
		of = &use{lock: l}
		u.of[path] = of
	}
	of.users++
	return sync.OnceFunc(func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if of.users--; of.users == 0 {
			of.lock.release()
			delete(u.of, path)
		}
	})
}
