//go:build unix

package terminal

import (
	"os"
	"os/signal"
	"syscall"
)

// watchSize reports when the user's terminal is resized. The caller ends it.
func watchSize() (resized <-chan struct{}, end func()) {
	signals, changed, done := make(chan os.Signal, 1), make(chan struct{}, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGWINCH)
	go func() {
		for {
			select {
			case <-signals:
			case <-done:
				return
			}
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}()
	return changed, func() {
		signal.Stop(signals)
		close(done)
	}
}
