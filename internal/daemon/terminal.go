package daemon

import (
	"cmp"
	"time"

	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/terminal"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service"
)

// openTerminals opens the terminal door. It shares the streams' tickets, so the streams come first.
func (d *server) openTerminals(cfg *config.Config, secret []byte, edge *api.Edge, limits *api.Limits, events event.Sink) (*terminal.Door, error) {
	door, err := terminal.New(terminal.Options{
		Engine: d.service, Auth: d.streams, Secret: tokenSecret(cfg, secret), TokenTTL: cfg.TerminalTokenTTL,
		OriginAllowed: edge.OriginAllowed, Connect: limits.Connect, Events: events, Logger: d.log,
	})
	if err == nil {
		d.closers = append(d.closers, door.Close)
	}
	return door, err
}

// terminalOptions returns the configuration's limits for terminals.
func terminalOptions(cfg *config.Config) service.TerminalOptions {
	const none = time.Duration(-1)
	return service.TerminalOptions{
		Reattach: cfg.TerminalReattach, Idle: cmp.Or(cfg.TerminalIdle, none), Lifetime: cmp.Or(cfg.TerminalLifetime, none),
		PerSession: orNone(cfg.TerminalsPerSession), PerUser: orNone(cfg.TerminalsPerUser),
		History: cfg.TerminalHistory, InputBytes: cfg.TerminalInputBPS, OutputBytes: cfg.TerminalOutputBPS,
	}
}
