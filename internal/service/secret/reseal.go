package secret

import (
	"context"
	"fmt"

	vault "github.com/belljar/belljar/internal/secret"
	"github.com/belljar/belljar/internal/store"
)

// Reseal encrypts all stored secrets with the vault's current key. Secrets that the vault cannot decrypt stay unchanged: their key may
// return. No other process may use the store meanwhile.
func Reseal(ctx context.Context, records store.Store, v *vault.Vault) error {
	again := func(sealed []byte, about string) []byte {
		plain, err := v.Open(sealed, about)
		if err != nil {
			return sealed
		}
		return v.Seal(plain, about)
	}
	stored, err := records.Secrets().All(ctx)
	if err != nil {
		return err
	}
	for _, row := range stored {
		if v.Current(row.Sealed) {
			continue
		}
		row.Sealed = again(row.Sealed, about(row))
		if _, err := records.Secrets().Put(ctx, row); err != nil {
			return fmt.Errorf("stored secret %s: %w", row.Name, err)
		}
	}
	sessions, err := records.Sessions().Unfinished(ctx)
	if err != nil {
		return err
	}
	for _, row := range sessions {
		if len(row.Secrets) == 0 || v.Current(row.Secrets) {
			continue
		}
		row.Secrets = again(row.Secrets, row.ID)
		if err := records.Sessions().Update(ctx, row); err != nil {
			return fmt.Errorf("secrets of session %s: %w", row.ID, err)
		}
	}
	runs, err := records.Runs().Unfinished(ctx)
	if err != nil {
		return err
	}
	for _, row := range runs {
		if len(row.Secrets) == 0 || v.Current(row.Secrets) {
			continue
		}
		row.Secrets = again(row.Secrets, row.ID)
		if err := records.Runs().Update(ctx, row); err != nil {
			return fmt.Errorf("secrets of run %s: %w", row.ID, err)
		}
	}
	return nil
}
