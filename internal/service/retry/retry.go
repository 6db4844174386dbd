// Package retry repeats a failed write to the store until it succeeds.
package retry

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/store"
)

// The pause before the second attempt, and the longest pause. Each pause is twice the previous one.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Writer repeats writes until the service closes.
type Writer struct {
	Clock   clock.Clock
	Closing context.Context // ends when the service closes
	Log     *slog.Logger
}

// IsFinal reports whether a write that failed with an error can never succeed.
func IsFinal(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrEnded)
}

// Do repeats a failed write, after a pause, until it succeeds. It returns false for a write that can never succeed, and if
// the service closes first: then the next process repairs the record. about names the record in the log.
func (w *Writer) Do(write func() error, about ...any) bool {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		again := make(chan struct{})
		stop := w.Clock.AfterFunc(pause, func() { close(again) })
		select {
		case <-again:
		case <-w.Closing.Done():
			stop()
			return false
		}
		err := write()
		if err == nil {
			return true
		}
		if IsFinal(err) {
			w.Log.Error("record cannot be written; no further retry", append(about, "err", err)...)
			return false
		}
	}
}
