package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/belljar/belljar/internal/agent/wire"
)

// Trust has the programs of a sandbox trust one more authority, whose certificate is PEM: see [wire.TrustDir]. It is done once, as
// the user of req. With an agent that cannot it is [errors.ErrUnsupported].
func (c *Client) Trust(ctx context.Context, req wire.FileRequest, authority []byte) error {
	s, err := c.open(ctx, wire.Request{Op: wire.OpTrust, File: &req})
	if err != nil {
		return fmt.Errorf("trust an authority: %w", err)
	}
	defer s.close()
	err = s.contents(bytes.NewReader(authority))
	if err == nil {
		_, err = s.reply()
	}
	if err != nil {
		if s.greet && !slices.Contains(s.hello.Features, string(wire.OpTrust)) {
			err = errors.Join(err, errors.ErrUnsupported)
		}
		return fmt.Errorf("trust an authority: %w", err)
	}
	return nil
}
