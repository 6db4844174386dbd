package outcome

import (
	"log/slog"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// Logged returns the level at which an ended run is logged. If the machine is at fault, not the program, an operator must act, and why is the
// reason. Messages of other runs may quote a command, which may contain secrets. A run that the end of the server cancelled has the reason of one
// that its user cancelled; only its message is another.
func Logged(last belljar.Run) (level slog.Level, why []slog.Attr) {
	if last.Message == fault.ErrShutdown.Error() {
		return slog.LevelInfo, []slog.Attr{slog.String("message", last.Message)}
	}
	switch last.ReasonCode {
	case belljar.ReasonProvisionFailed, belljar.ReasonSandboxDied, belljar.ReasonNodeOutOfMemory:
		why = append(why, slog.String("message", last.Message))
		if last.Workspace.Volume != "" {
			why = append(why, slog.String("volume", last.Workspace.Volume))
		}
		return slog.LevelWarn, why
	}
	return slog.LevelInfo, nil
}
