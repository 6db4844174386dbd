package box

import (
	"fmt"

	"github.com/belljar/belljar"
)

// NoProcess is the message and the hint for a sandbox in which no more processes can start.
func NoProcess(l belljar.Limits) (message, hint string) {
	return fmt.Sprintf("the sandbox has as many processes as it may have (%d)", MaxProcesses(l)),
		"end what runs in it, or allow more with " + ProcessLimit(l)
}

// MaxProcesses is how many processes and threads l allows at once: the lower of its two limits.
func MaxProcesses(l belljar.Limits) int { return min(l.Pids, l.NProc) }

// ProcessLimit names the lower of the two limits on processes.
func ProcessLimit(l belljar.Limits) string {
	if l.NProc < l.Pids {
		return "nproc (--nproc)"
	}
	return "pids (--pids)"
}
