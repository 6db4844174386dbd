package outcome

import (
	"log/slog"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// The log line of a run that the end of the server cancelled differs from that of one that its user cancelled.
func TestLogged(t *testing.T) {
	for name, test := range map[string]struct {
		run   belljar.Run
		level slog.Level
		why   string
	}{
		"by its user":   {belljar.Run{ReasonCode: belljar.ReasonCanceledByUser, Message: "canceled_by_user"}, slog.LevelInfo, ""},
		"by a shutdown": {belljar.Run{ReasonCode: belljar.ReasonCanceledByUser, Message: fault.ErrShutdown.Error()}, slog.LevelInfo, "belljar is shutting down"},
		"no sandbox":    {belljar.Run{ReasonCode: belljar.ReasonProvisionFailed, Message: "no"}, slog.LevelWarn, "no"},
		"its own fault": {belljar.Run{ReasonCode: belljar.ReasonNonZeroExit, Message: "secret exited with status 1"}, slog.LevelInfo, ""},
	} {
		level, attrs := Logged(test.run)
		var why string
		for _, attr := range attrs {
			why += attr.Value.String()
		}
		if level != test.level || why != test.why {
			t.Errorf("%s: %s, %q", name, level, why)
		}
	}
}
