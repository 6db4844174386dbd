//go:build linux

package process

import (
	"bytes"
	"os"
	"os/signal"
	"strconv"

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

// Handles reports whether a process catches or ignores a signal. A living process that does neither has not received the signal
// yet. It returns true for every process if the kernel does not report it (gVisor).
func Handles(pid int, s unix.Signal) bool {
	raw, err := ReadSmall("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return true // it has ended
	}
	signaled := false
	for line := range bytes.Lines(raw) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(":\t"))
		if string(name) != "SigCgt" && string(name) != "SigIgn" {
			continue
		}
		signaled = true
		if mask, err := strconv.ParseUint(string(value), 16, 64); err == nil && mask&(1<<(s-1)) != 0 {
			return true
		}
	}
	return !signaled
}
