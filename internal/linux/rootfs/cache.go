//go:build linux

package rootfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/lockfile"
)

// mostTrees is the largest number of cached images.
const mostTrees = 128

// Cache caches examined roots. The zero value is empty; it is safe for concurrent use.
type Cache struct {
	mu    sync.Mutex
	trees map[cacheKey]*Tree
}

// cacheKey identifies an examined root. An image that was removed and unpacked again has a new folder.
type cacheKey struct {
	dir      string
	user     User
	dev, ino uint64
	changed  unix.Timespec
}

// LockedTree is an image that cannot be removed while it is held.
type LockedTree struct {
	Tree *Tree
	Lock *os.File // nil for an image that is never removed
}

// Close releases the image.
func (h *LockedTree) Close() {
	if h.Lock != nil {
		h.Lock.Close()
	}
}

// Open takes a shared flock(2) on the file lock, unless that is "", and examines the image in dir, or the host if that is "". A missing or
// removed image is [fs.ErrNotExist].
func (s *Cache) Open(ctx context.Context, dir, lock string, user User) (*LockedTree, error) {
	h := &LockedTree{}
	var err error
	if lock != "" {
		if h.Lock, err = lockImage(ctx, lock); err != nil {
			return nil, err
		}
	}
	if h.Tree, err = s.look(dir, user); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// look examines a root, and only once while it does not change. The host changes with its packages, which put the files of their programs into
// /etc.
func (s *Cache) look(dir string, user User) (*Tree, error) {
	key := cacheKey{dir: dir, user: user}
	var st unix.Stat_t
	if err := unix.Lstat(cmp.Or(dir, "/etc"), &st); err == nil {
		key.dev, key.ino, key.changed = uint64(st.Dev), st.Ino, st.Ctim
	} else if dir != "" {
		return nil, &fs.PathError{Op: "lstat", Path: dir, Err: err}
	}
	s.mu.Lock()
	t, ok := s.trees[key]
	s.mu.Unlock()
	if ok && (dir != "" || t.there()) {
		return t, nil
	}
	var err error
	if dir == "" {
		t, err = Host(user)
	} else {
		t, err = Image(dir, user)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trees == nil || len(s.trees) >= mostTrees {
		s.trees = map[cacheKey]*Tree{}
	}
	s.trees[key] = t
	return t, nil
}

// lockImage opens an image's lock file and takes a shared lock. A process that removes the image holds an exclusive lock for a moment;
// afterwards the file may be another one, or missing.
func lockImage(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		if err := share(ctx, f); err != nil {
			return nil, fmt.Errorf("lock image: %w", err)
		}
		var opened, named unix.Stat_t
		err = errors.Join(unix.Fstat(int(f.Fd()), &opened), unix.Lstat(path, &named))
		if err == nil && opened.Dev == named.Dev && opened.Ino == named.Ino {
			return f, nil
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
}

// share takes a shared lock on f, and closes f if that fails.
func share(ctx context.Context, f *os.File) error {
	err := lockfile.Lock(f, unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		got := make(chan error, 1)
		go func() { got <- lockfile.Lock(f, unix.LOCK_SH) }()
		select {
		case err = <-got:
		case <-ctx.Done():
			go func() { <-got; f.Close() }() // only the lock ends the wait
			return context.Cause(ctx)
		}
	}
	if err != nil {
		f.Close()
	}
	return err
}
