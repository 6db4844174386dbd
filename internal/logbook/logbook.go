// Package logbook is the contract for the logs of runs: append-only, numbered, read by many at once while they grow.
// Implementations live in child packages, import only this one and the root package, and pass logbooktest.
package logbook

import (
	"context"
	"errors"
	"iter"

	"github.com/belljar/belljar"
)

// ErrSealed means that a log takes nothing more.
var ErrSealed = errors.New("log is sealed")

// ErrNotFound means that a book holds no log of that name.
var ErrNotFound = errors.New("log not found")

// ErrExists means that a book holds a log of that name already.
var ErrExists = errors.New("log exists")

// Book holds the logs of an installation, one a run. All methods are safe for concurrent use.
type Book interface {
	// Create begins the log of id; [ErrExists] if there is one.
	Create(id string) (Log, error)
	// Open finds the log of id; [ErrNotFound] if there is none. Where logs outlive the process, one that was not sealed
	// continues after its last whole frame.
	Open(id string) (Log, error)
	// Remove drops the log of id, if there is one. Readers under way read on to its end.
	Remove(id string) error
}

// Log is the output of one run. All methods are safe for concurrent use.
type Log interface {
	// Append numbers frames from 1 without a gap, whatever their Seq says, and keeps them. Those of one call follow
	// each other directly. The log does not hold on to their Output. Nothing a reader does can delay it.
	// [ErrSealed] after Seal: then none of them is kept.
	Append(frames ...belljar.Frame) error
	// Read yields the frames from seq from (0 counts as 1), then continues as they come. It ends when the log is sealed
	// and read to its end, or with ctx's error. What frames refer to belongs to the log, stays as it
	// is and must not be changed. An event's data may come back as its JSON would: numbers as float64.
	Read(ctx context.Context, from uint64) iter.Seq2[belljar.Frame, error]
	// Last is the seq of the last frame; 0 while there is none.
	Last() uint64
	// Size is how many bytes the log takes up, or will when it is sealed as it is.
	Size() int64
	// Seal means that nothing more comes. Where logs outlive the process, this one also survives the loss of power when
	// Seal returns. It may be called twice.
	Seal() error
}
