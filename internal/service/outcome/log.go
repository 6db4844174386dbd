package outcome

import (
	"log/slog"

	"github.com/belljar/belljar"
)

// Logged returns the level at which an ended run is logged. If the machine is at fault, not the program, an operator must act, and why is the
// reason. Messages of other runs may quote a command, which may contain secrets.
func Logged(last belljar.Run) (level slog.Level, why []slog.Attr) {
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
