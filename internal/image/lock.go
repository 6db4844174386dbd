package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/belljar/belljar/internal/flock"
)

// errBusy means that another process or goroutine holds a lock.
var errBusy = flock.ErrBusy

// lock is a flock(2) on a file that exists as long as the locked object. It works between processes,
// and between two holders in one.
type lock struct {
	f    *os.File
	path string
}

// Pauses of acquire between two tries: the kernel cannot wake a waiter when a context ends.
const (
	lockPollLeast = 2 * time.Millisecond
	lockPollMost  = 100 * time.Millisecond
)

// tryLock takes the lock at path, and makes a missing file; [errBusy] if it is held elsewhere.
func tryLock(path string, exclusive bool) (*lock, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := flock.Try(f, exclusive); err != nil {
			_ = f.Close()
			return nil, err
		}
		if same(f, path) {
			return &lock{f: f, path: path}, nil
		}
		_ = f.Close() // its last holder has removed the file meanwhile: it no longer locks anything
	}
}

// same reports whether path still names f.
func same(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(mine, there)
}

// acquire waits for the lock at path.
func acquire(ctx context.Context, path string, exclusive bool) (*lock, error) {
	pause := lockPollLeast
	for {
		l, err := tryLock(path, exclusive)
		if !errors.Is(err, errBusy) {
			return l, err
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
		pause = min(2*pause, lockPollMost)
	}
}

// release unlocks, even if a child that is being forked has the descriptor for a moment longer.
func (l *lock) release() {
	if l != nil {
		_ = flock.Unlock(l.f)
		_ = l.f.Close()
	}
}

// discard releases an exclusive lock on something that was removed, and removes its file.
func (l *lock) discard() {
	if l != nil {
		_ = os.Remove(l.path)
		l.release()
	}
}

// held reports whether the lock of an image is held. A missing file is not held.
func held(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	err = flock.Try(f, true)
	_ = flock.Unlock(f)
	return errors.Is(err, errBusy)
}

// sleep waits for d, or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
