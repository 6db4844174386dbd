//go:build !linux

package daemon

import (
	"context"

	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/workspace"
)

func (*server) openLocal(context.Context, *config.Config, *dataDir, event.Sink) (workspace.Source, error) {
	return nil, mistake("use SANDBOX_WORKSPACE_MODE=sandbox", "the mode local of the workspace API is for Linux")
}
