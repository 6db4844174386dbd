package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// EndShell ends a shell or kernel, with its commands and their processes. It returns when they are gone; an unknown name is no error.
func EndShell(ctx context.Context, c *Client, name string) error {
	if _, err := c.ask(ctx, wire.Request{Op: wire.OpEndShell, ID: name}); err != nil {
		return fmt.Errorf("end the shell: %w", err)
	}
	return nil
}

// Programs returns how many processes of commands run in the sandbox, without the shell of no name while it is idle. If the agent
// does not support it, the error is [errors.ErrUnsupported].
func Programs(ctx context.Context, c *Client) (int, error) {
	s, err := c.open(ctx, wire.Request{Op: wire.OpPrograms})
	if err != nil {
		return 0, fmt.Errorf("programs: %w", err)
	}
	defer s.close()
	reply, err := s.reply()
	if err == nil {
		return reply.Programs, nil
	}
	if s.greet && !slices.Contains(s.hello.Features, string(wire.OpPrograms)) {
		err = errors.Join(err, errors.ErrUnsupported)
	}
	return 0, fmt.Errorf("programs: %w", err)
}
