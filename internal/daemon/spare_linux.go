package daemon

import (
	"log/slog"
	"os"
	"strconv"
	"strings"
)

// sparedScore is the server's oom_score_adj: the kernel's OOM killer prefers other processes. Sandboxes do not inherit it.
const sparedScore = -500

// spare lowers the server's OOM score, if it has the capability.
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
