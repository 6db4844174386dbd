// Package logbook is the contract for the logs of runs: append-only and numbered, with many concurrent readers.
// Implementations are child packages, import only this one and the root package, and pass logbooktest.
package logbook

import (
	"context"
	"errors"
	"iter"

	"github.com/belljar/belljar"
)

// ErrSealed means that a log is sealed and accepts no more frames.
var ErrSealed = errors.New("log is sealed")

// ErrNotFound means that the book has no log with that id.
var ErrNotFound = errors.New("log not found")

// ErrExists means that the book already has a log with that id.
var ErrExists = errors.New("log exists")

// Book holds the logs of an installation, one for each run. All methods are safe for concurrent use.
type Book interface {
	// Create creates the log of id; [ErrExists] if there is one.
	Create(id string) (Log, error)
	// Open finds the log of id; [ErrNotFound] if there is none. If logs outlive the process, an unsealed log continues
	// after its last complete frame.
	Open(id string) (Log, error)
	// Remove removes the log of id, if there is one, and seals it. Open readers can still read to its end.
	Remove(id string) error
}

// Log is the output of one run. All methods are safe for concurrent use.
type Log interface {
	// Append numbers frames from 1 without a gap, ignoring their Seq, and stores them. The frames of one call are
	// consecutive. The log copies their Output. No reader can delay it. After Seal it stores none of them and returns
	// [ErrSealed].
	Append(frames ...belljar.Frame) error
	// Read yields the frames from seq from (0 counts as 1), then follows the log. It ends at the end of a sealed log, or
	// with ctx's error. The memory that frames refer to belongs to the log: it does not change, and the caller must not
	// change it. An event's data may come back as decoded JSON: numbers as float64.
	Read(ctx context.Context, from uint64) iter.Seq2[belljar.Frame, error]
	// Last returns the seq of the last frame; 0 if there is none.
	Last() uint64
	// Size returns the size of the log in bytes, including the seal that it would get now.
	Size() int64
	// Seal ends the log. If logs outlive the process, this one is durable against a power failure after Seal has returned.
	// It may be called twice. Even after an error, the log has ended for its readers.
	Seal() error
}
