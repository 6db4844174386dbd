package daemon

import (
	"log/slog"
	"os"
	"strconv"
	"strings"
)

// sparedScore is what the kernel's out-of-memory killer adds to the server's score: it takes what has nothing to do with
// serving first. Sandboxes do not get it from the server.
const sparedScore = -500

// spare has the kernel spare the server where memory runs out, if it may: lowering the score takes a capability.
func spare(log *slog.Logger) {
	const file = "/proc/self/oom_score_adj"
	raw, err := os.ReadFile(file)
	if err != nil {
		return
	}
	if is, err := strconv.Atoi(strings.TrimSpace(string(raw))); err != nil || is <= sparedScore {
		return
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(sparedScore)), 0); err != nil {
		log.Debug("the server keeps its place before the out-of-memory killer", "err", err)
	}
}
