//go:build linux

package guest

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// catchSignals has this process take the signals that it was started to ignore, as by nohup or a shell's &: what is ignored is
// by every program that it starts, too. Go leaves these two as they are; the channel is never read.
func catchSignals() {
	for _, s := range []os.Signal{unix.SIGHUP, unix.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}
