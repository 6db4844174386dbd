// Package blob is the contract for the bytes of artifacts. The list of artifacts is in the store.
//
// Implementations are child packages, import only this one and the root package, and pass blobtest.
package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/belljar/belljar"
)

// ErrNotFound means that there is no such artifact.
var ErrNotFound = errors.New("blob not found")

// ErrFull means that the disk is full.
var ErrFull = errors.New("blob store is full")

// Key identifies one artifact. Any user name is safe; Path is relative and clean (belljar.CleanPath).
type Key struct {
	UserID, RunID, Path string
}

// Check returns an error unless k is valid.
func (k Key) Check() error {
	if !belljar.ValidID(k.RunID) {
		return fmt.Errorf("run %q: not an id", k.RunID)
	}
	if clean, err := belljar.CleanPath(k.Path); err != nil || clean != k.Path || clean == "." {
		return fmt.Errorf("artifact %q: not a clean path", k.Path)
	}
	return nil
}

// Info describes stored bytes.
type Info struct {
	Size   int64
	Digest string // sha256:…
}

// Store stores the bytes of artifacts. All methods are safe for concurrent use.
type Store interface {
	// Put stores all bytes of r under k, or nothing after an error. It replaces earlier bytes. They are durable only after
	// Sync.
	Put(ctx context.Context, k Key, r io.Reader) (Info, error)
	// Sync makes all artifacts of a run durable against a power failure.
	Sync(ctx context.Context, userID, runID string) error
	// Open returns the bytes from offset on, or ErrNotFound. An open reader survives Delete.
	Open(ctx context.Context, k Key, offset int64) (io.ReadCloser, error)
	// Delete removes all artifacts of a run. It is idempotent.
	Delete(ctx context.Context, userID, runID string) error
	// Orphans returns the runs whose last Put was before t and for which known returns false.
	Orphans(ctx context.Context, t time.Time, known func(runID string) bool) ([]Key, error)
	Close() error
}

// Drafter is a [Store] that can store bytes without a copy if their key was not known when they were written.
type Drafter interface {
	// Draft creates a file for the bytes. It disappears with its last descriptor, unless it is kept.
	Draft() (*os.File, error)
	// Keep is Put with the bytes of a draft, which must not change afterwards.
	Keep(k Key, draft *os.File) error
}
