// Package blob is the contract for the bytes of artifacts. What artifacts there are is on record in the store.
//
// Implementations live in child packages, import only this one and the root package, and pass blobtest.
package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/belljar/belljar"
)

// ErrNotFound means that there are no such bytes.
var ErrNotFound = errors.New("blob not found")

// ErrFull means that the disk is full.
var ErrFull = errors.New("blob store is full")

// Key names the bytes of one artifact. Any user name is safe; Path is relative and clean (belljar.CleanPath).
type Key struct {
	UserID, RunID, Path string
}

// Check reports whether k can name anything.
func (k Key) Check() error {
	if !belljar.ValidID(k.RunID) {
		return fmt.Errorf("run %q: not an id", k.RunID)
	}
	if clean, err := belljar.CleanPath(k.Path); err != nil || clean != k.Path || clean == "." {
		return fmt.Errorf("artifact %q: not a clean path", k.Path)
	}
	return nil
}

// Info is what was put.
type Info struct {
	Size   int64
	Digest string // sha256:…
}

// Store holds bytes. All methods are safe for concurrent use.
type Store interface {
	// Put keeps what r yields: all of it, or after an error nothing. It replaces what the key had. It is not durable
	// before Sync.
	Put(ctx context.Context, k Key, r io.Reader) (Info, error)
	// Sync makes everything that a run has put survive the loss of power.
	Sync(ctx context.Context, userID, runID string) error
	// Open returns the bytes from offset on; ErrNotFound. A reader under way survives Delete.
	Open(ctx context.Context, k Key, offset int64) (io.ReadCloser, error)
	// Delete drops everything of a run. It is idempotent.
	Delete(ctx context.Context, userID, runID string) error
	// Orphans returns runs that hold bytes last put before t and that known denies.
	Orphans(ctx context.Context, t time.Time, known func(runID string) bool) ([]Key, error)
	Close() error
}
