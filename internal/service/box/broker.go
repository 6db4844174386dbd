package box

import (
	"context"
	"errors"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
)

// trust makes the programs of a sandbox trust the authority that terminates TLS for its brokered secrets.
func (b *Box) trust(ctx context.Context, authority *egress.Authority) error {
	err := b.Agent.Trust(ctx, b.File(""), authority.PEM())
	if errors.Is(err, errors.ErrUnsupported) {
		return &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "the sandbox's agent does not support brokered secrets", Err: err,
			Details: map[string]any{"field": "secrets"}, Hint: "the agent is of an older version than the server: restart the server, and send the request again",
		}
	}
	return err
}
