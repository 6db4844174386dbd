package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/mcp"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/local"
)

// ServeModels speaks MCP over a pair of streams until its input ends.
func (h *Host) ServeModels(ctx context.Context, m local.Models) error {
	kit := mcp.New(mcp.Options{
		Version: h.Version, Runtimes: m.Runtimes, Image: m.Image, Logger: m.Logger,
		Drain: max(time.Minute, m.Wait+15*time.Second), // a call may wait this long, and must then be answered
	})
	if _, err := egress.ParseRules(m.Toolset.Egress); err != nil {
		return err
	}
	terms := mcp.Terms{Toolset: m.Toolset, Tools: m.Tools, Capture: m.Capture, Wait: m.Wait, MaxOutput: m.MaxOutput}
	err := kit.Serve(ctx, mcp.Client{Service: func(string, string) belljar.Service { return m.Service }, Terms: terms}, m.In, m.Out)
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || errors.Is(err, syscall.EPIPE) { // the client is gone
		err = nil
	}
	return err
}

// openModels opens the MCP door. It needs the streams' URLs, so the streams come first.
func (d *server) openModels(cfg *config.Config, secret []byte, edge *api.Edge, callers api.Authenticator, bodies *api.Shares, mux *http.ServeMux) error {
	if !cfg.MCP {
		return nil
	}
	if name := cfg.MCPRuntime; name != "" && !slices.Contains(d.runtimes, name) {
		return mistake("one of: "+strings.Join(d.runtimes, " "), "SANDBOX_MCP_RUNTIME: runtime %s is not among SANDBOX_RUNTIMES", name)
	}
	kit := mcp.New(mcp.Options{
		Version: d.version, Runtimes: d.runtimes, Image: cfg.DefaultImage, Logger: slog.New(warnings{d.log.Handler()}),
	})
	var err error
	d.models, err = mcp.NewDoor(mcp.DoorOptions{
		Kit: kit, Engine: d.service, Auth: callers, Secret: secret, Bodies: bodies, OriginAllowed: edge.OriginAllowed,
		StreamURL: d.streams.RunURL, Terms: termsOf(cfg), Idle: time.Duration(cfg.MCPSessionIdleSec) * time.Second,
		Began: d.began,
	})
	if err != nil {
		return ofSetting("SANDBOX_MCP_TOOLS", err) // the other tools are valid
	}
	d.closers = append(d.closers, d.models.Close)
	d.models.Register(mux)
	return nil
}

// ofSetting adds the name of the setting to an error.
func ofSetting(name string, err error) error {
	return &belljar.Error{Code: belljar.CodeInvalidRequest, Message: name, Err: err, Hint: belljar.HintOf(err)}
}

// termsOf returns the configuration's limits for models.
func termsOf(cfg *config.Config) mcp.Terms {
	reach := belljar.ParseEgress(cfg.MCPAllow)
	reach.Presets = cfg.MCPAllowPresets
	return mcp.Terms{
		Toolset: belljar.Toolset{
			Mode: belljar.ToolMode(cfg.MCPMode), Image: cfg.MCPImage, Runtime: cfg.MCPRuntime,
			Resources:  belljar.Resources{CPU: cfg.MCPCPU, MemoryMB: cfg.MCPMemoryMB, WorkspaceMB: cfg.MCPWorkspaceMB},
			TimeoutSec: float64(cfg.MCPTimeoutSec), IdleTimeoutSec: float64(cfg.MCPIdleSec),
			Network: !reach.IsZero(), Egress: reach,
		},
		ServerNetwork: cfg.NetworkDefault == belljar.NetworkAllowlist,
		Tools:         cfg.MCPTools, Wait: time.Duration(cfg.MCPWaitSec) * time.Second, MaxOutput: cfg.MCPMaxOutput,
	}
}

// warnings drops messages below a warning: the MCP library logs every session with its id.
type warnings struct{ slog.Handler }

// Enabled accepts warnings and errors only.
func (s warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && s.Handler.Enabled(ctx, level)
}
