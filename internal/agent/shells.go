package agent

import (
	"context"
	"fmt"

	"github.com/belljar/belljar/internal/agent/wire"
)

// Shells returns the shells and kernels that have a name. An older agent, which has none, is [ErrProtocol] or an error of the agent.
func Shells(ctx context.Context, c *Client) ([]wire.ShellInfo, error) {
	reply, err := c.ask(ctx, wire.Request{Op: wire.OpShells})
	if err != nil {
		return nil, fmt.Errorf("shells: %w", err)
	}
	return reply.Shells, nil
}

// EndShell ends a shell or kernel, with its commands and what they have started. It returns when they are gone; an unknown name is no
// error.
func EndShell(ctx context.Context, c *Client, name string) error {
	if _, err := c.ask(ctx, wire.Request{Op: wire.OpEndShell, ID: name}); err != nil {
		return fmt.Errorf("end the shell: %w", err)
	}
	return nil
}
