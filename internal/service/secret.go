package service

import (
	"context"

	"github.com/belljar/belljar"
	vault "github.com/belljar/belljar/internal/secret"
	"github.com/belljar/belljar/internal/service/secret"
	"github.com/belljar/belljar/internal/store"
)

// Reseal encrypts all stored secrets again with the vault's current key. No service may use the store
// meanwhile.
func Reseal(ctx context.Context, records store.Store, v *vault.Vault) error {
	return secret.Reseal(ctx, records, v)
}

// secrets is the stored secrets, as one caller sees them.
type secrets struct{ view }

var _ belljar.Secrets = secrets{}

// Set stores a secret.
func (v secrets) Set(ctx context.Context, name string, spec belljar.SecretSpec) (belljar.StoredSecret, error) {
	set, err := v.service.secrets.As(v.caller).Set(ctx, name, spec)
	return orRefused(v.view, "store a secret", set, err)
}

// List returns the caller's own secrets and the shared ones.
func (v secrets) List(ctx context.Context) ([]belljar.StoredSecret, error) {
	return v.service.secrets.As(v.caller).List(ctx)
}

// Remove removes a secret.
func (v secrets) Remove(ctx context.Context, name string, shared bool) error {
	if err := v.service.secrets.As(v.caller).Remove(ctx, name, shared); err != nil {
		return v.service.refused(v.caller, "remove a secret", err)
	}
	return nil
}
