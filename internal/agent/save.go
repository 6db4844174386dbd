package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/belljar/belljar/internal/agent/wire"
)

// Save writes the whole workspace to w as a tar stream. frozen reports that no program could change it meanwhile. After an error the
// stream in w is incomplete. If the agent does not support it, the error is [errors.ErrUnsupported].
func Save(ctx context.Context, c *Client, req wire.FileRequest, w io.Writer) (frozen bool, err error) {
	s, err := c.open(ctx, wire.Request{Op: wire.OpSave, File: &req})
	if err != nil {
		return false, fmt.Errorf("save: %w", err)
	}
	defer s.close()
	b := &body{s: s, what: "save"}
	if _, err := b.WriteTo(w); err != nil {
		if s.greet && !slices.Contains(s.hello.Features, string(wire.OpSave)) {
			err = errors.Join(err, errors.ErrUnsupported)
		}
		return false, err
	}
	reply, err := s.reply()
	if err != nil {
		return false, fmt.Errorf("save: %w", err)
	}
	return reply.Frozen, nil
}

// Load unpacks a stream of Save. Its entries replace those of the workspace, but no file replaces a folder. After an error a part of it
// may remain.
func Load(ctx context.Context, c *Client, req wire.FileRequest, r io.Reader) error {
	if _, err := c.send(ctx, wire.Request{Op: wire.OpLoad, File: &req}, r); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return nil
}
