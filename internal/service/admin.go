package service

import (
	"context"

	"github.com/belljar/belljar"
)

// admin is what operators may do.
type admin struct{ view }

var _ belljar.Admin = admin{}

// Runs lists everybody's runs.
func (v admin) Runs(context.Context, belljar.RunQuery) (belljar.RunPage, error) {
	return belljar.RunPage{}, absent("admin")
}

// Idempotency lists the idempotency keys in force.
func (v admin) Idempotency(context.Context, belljar.KeyQuery) ([]belljar.KeyEntry, error) {
	return nil, absent("admin")
}

// Usage lists the users who use most.
func (v admin) Usage(context.Context, int) ([]belljar.UserUsage, error) { return nil, absent("admin") }

// Quota returns the quota in force for a user.
func (v admin) Quota(context.Context, string) (belljar.Quota, error) {
	return belljar.Quota{}, absent("admin")
}

// SetQuota stores a quota of a user's own.
func (v admin) SetQuota(context.Context, string, belljar.Quota) error { return absent("admin") }

// tokens are the API keys.
type tokens struct{ view }

var _ belljar.Tokens = tokens{}

// Create makes a key.
func (v tokens) Create(context.Context, belljar.TokenSpec) (belljar.Token, error) {
	return belljar.Token{}, absent("tokens")
}

// List lists keys.
func (v tokens) List(context.Context) ([]belljar.Token, error) { return nil, absent("tokens") }

// Revoke makes a key useless.
func (v tokens) Revoke(context.Context, string) error { return absent("tokens") }
