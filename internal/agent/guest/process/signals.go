//go:build linux

package process

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// CatchSignals catches the signals that this process inherited as ignored, for example from nohup or a shell's &, because every
// program that it starts would inherit that. Go leaves these two unchanged; the channel is never read.
func CatchSignals() {
	for _, s := range []os.Signal{unix.SIGHUP, unix.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}
