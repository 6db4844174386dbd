//go:build linux

package process

import (
	"time"

	"golang.org/x/sys/unix"
)

// KillTime is how long processes may take to die.
const KillTime = 10 * time.Second

// freezeTries is the number of rounds that find and stop processes before killing them.
const freezeTries = 32

// termTries is the number of rounds that find processes to terminate.
const termTries = 8

// Terminate sends TERM to the processes that list returns, in at least two rounds, and until a round finds no new one: the table may
// lack a process that starts while it is read. The caller closes the processes.
func Terminate(list func() []*Process) (signaled []*Process) {
	known := make(map[int]uint64)
	for round := range termTries {
		fresh := 0
		for _, p := range list() {
			if start, ok := known[p.pid]; ok && start == p.start {
				p.Close()
				continue
			}
			fresh++
			p.Signal(unix.SIGTERM)
			p.Signal(unix.SIGCONT) // a stopped process cannot handle TERM
			known[p.pid], signaled = p.start, append(signaled, p)
		}
		if fresh == 0 && round > 0 {
			break
		}
	}
	return signaled
}

// Sweep kills the processes that list returns, until there are none and gone, called after a pause, agrees. It stops them before
// it kills them: a stopped process does not fork and keeps its place in a full process table, so a fork bomb cannot grow back.
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
		for _, p := range held { // on a busy machine, dying takes time: that does not count as a round
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
