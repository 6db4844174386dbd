package fault

import (
	"log/slog"
	"runtime/debug"
)

// Contain calls handle, for what a run's sandbox sends, and returns its error. If it panics, that is logged, and the error is [ErrDefect]: a
// defect ends one run, and not the server. Its next process would reattach to the run and receive the same.
func Contain(log *slog.Logger, handle func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			log.Error("output of a run cannot be handled", "panic", v, "stack", string(debug.Stack()))
			err = ErrDefect
		}
	}()
	return handle()
}
