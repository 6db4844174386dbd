//go:build linux

package process

import (
	"time"

	"golang.org/x/sys/unix"
)

// KillTime is how long processes are given to die.
const KillTime = 10 * time.Second

// freezeTries is how often processes are looked for and stopped before all of them are killed.
const freezeTries = 32

// Sweep kills what list finds, until that is nothing and gone, asked after a pause, agrees. They are stopped before they
// are killed: a stopped process does not fork, and keeps its place in a full process table, so that a fork bomb comes to
// rest instead of growing back.
func Sweep(rounds int, list func() []*Process, gone func(pause time.Duration) bool) bool {
	pause := time.Millisecond
	until := time.Now().Add(KillTime)
	for range rounds {
		held := make(map[int]*Process)
		for range freezeTries {
			fresh := 0
			for _, p := range list() {
				if known := held[p.pid]; known != nil && known.start == p.start {
					p.Close()
					continue
				}
				fresh++
				p.Signal(unix.SIGSTOP)
				if old := held[p.pid]; old != nil {
					old.Close()
				}
				held[p.pid] = p
			}
			if fresh == 0 {
				break
			}
		}
		for _, p := range held {
			p.Signal(unix.SIGKILL)
		}
		for _, p := range held { // where others have the processor, dying takes its time: that is no round of its own
			p.Ended(until)
			p.Close()
		}
		if gone(pause) && len(held) == 0 {
			return true
		}
		pause = min(2*pause, 200*time.Millisecond)
	}
	return false
}
