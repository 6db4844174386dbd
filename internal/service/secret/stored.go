package secret

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/store"
)

// stored is the stored secrets as one caller sees them.
type stored struct {
	*Secrets
	caller belljar.Caller
}

// As returns the stored secrets as one caller sees them.
func (s *Secrets) As(caller belljar.Caller) belljar.Secrets { return stored{s, caller} }

// Set stores a secret.
func (v stored) Set(ctx context.Context, name string, spec belljar.SecretSpec) (belljar.StoredSecret, error) {
	owner, err := v.owner(name, spec.Shared)
	if err == nil {
		err = spec.Validate()
	}
	if err == nil {
		err = v.room(ctx, owner, name)
	}
	if err != nil {
		return belljar.StoredSecret{}, err
	}
	now := v.Now()
	row := store.Secret{Owner: owner, Name: name, CreatedAt: now, UpdatedAt: now}
	row.Sealed = v.Vault.Seal([]byte(spec.Value), about(row))
	if row, err = v.Store.Put(ctx, row); err != nil {
		return belljar.StoredSecret{}, fault.Record("store a secret", err)
	}
	v.happened(event.SecretSet, v.caller, name, spec.Shared)
	return shown(row), nil
}

// List returns the caller's own secrets and the shared ones.
func (v stored) List(ctx context.Context) ([]belljar.StoredSecret, error) {
	rows, err := v.Store.List(ctx, v.caller.ID, true)
	if err != nil {
		return nil, fault.Record("list the stored secrets", err)
	}
	list := []belljar.StoredSecret{}
	for _, row := range rows {
		list = append(list, shown(row))
	}
	return list, nil
}

// Remove removes a secret.
func (v stored) Remove(ctx context.Context, name string, shared bool) error {
	owner, err := v.owner(name, shared)
	if err != nil {
		return err
	}
	switch err := v.Store.Delete(ctx, owner, name); {
	case errors.Is(err, store.ErrNotFound):
		return &belljar.Error{
			Code: belljar.CodeNotFound, Message: fmt.Sprintf("there is no stored secret %s", name), Details: map[string]any{"name": name},
			Hint: "belljar secret ls lists them; a shared one needs --shared",
		}
	case err != nil:
		return fault.Record("remove a stored secret", err)
	}
	v.happened(event.SecretRemoved, v.caller, name, shared)
	return nil
}

// owner returns the owner of the caller's secret, or of a shared one, with that name.
func (v stored) owner(name string, shared bool) (string, error) {
	if err := belljar.CheckSecretName("name", name); err != nil {
		return "", err
	}
	if !shared && v.caller.ID != sharedOwner {
		return v.caller.ID, nil
	}
	if !shared || v.caller.Role != belljar.RoleAdmin {
		return "", &belljar.Error{
			Code: belljar.CodeForbidden, Message: "only an operator shares secrets", Details: map[string]any{"field": "shared"},
			Hint: "leave shared out: the secret is then yours alone",
		}
	}
	return sharedOwner, nil
}

// room refuses a secret beyond the maximum.
func (v stored) room(ctx context.Context, owner, name string) error {
	rows, err := v.Store.List(ctx, owner, false)
	if err != nil {
		return fault.Record("list the stored secrets", err)
	}
	if len(rows) < mostStored || slices.ContainsFunc(rows, func(s store.Secret) bool { return s.Name == name }) {
		return nil
	}
	return &belljar.Error{
		Code: belljar.CodeQuotaExceeded, Message: fmt.Sprintf("there are %d stored secrets already", len(rows)),
		Details: map[string]any{"quota": "secrets", "used": len(rows), "limit": mostStored}, Hint: "remove some: belljar secret rm NAME",
	}
}

// shown returns a stored secret without its value.
func shown(row store.Secret) belljar.StoredSecret {
	return belljar.StoredSecret{Name: row.Name, Shared: row.Owner == sharedOwner, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt}
}
