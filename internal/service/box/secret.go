package box

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/belljar/belljar"
)

// WriteSecrets writes the files of secrets in a sandbox, which only its programs can read. An existing file with the name
// is an error. Brokered secrets have no file.
func (b *Box) WriteSecrets(ctx context.Context, secrets map[string]belljar.Secret) error {
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if secrets[name].Brokered() {
			continue
		}
		err := b.Agent.WriteSecret(ctx, b.File(name), secrets[name].Value)
		if errors.Is(err, errors.ErrUnsupported) {
			return &belljar.Error{
				Code: belljar.CodeRuntimeUnavailable, Message: "the sandbox's agent does not support secrets", Err: err,
				Details: map[string]any{"field": "secrets"}, Hint: "the agent is of an older version than the server: restart the server, and send the request again",
			}
		}
		if err != nil {
			return fmt.Errorf("secret %s: %w", name, err)
		}
	}
	return nil
}
