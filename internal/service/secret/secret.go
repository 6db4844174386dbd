// Package secret manages the secrets of runs and sessions, and those that users store.
package secret

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/event"
	vault "github.com/belljar/belljar/internal/secret"
	"github.com/belljar/belljar/internal/secret/redact"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/store"
)

// mostStored bounds the number of secrets that one user stores.
const mostStored = 256

// sharedOwner owns the shared secrets. No user with stored secrets has this name.
const sharedOwner = ""

// Secrets manages the secrets of a service.
type Secrets struct {
	Store  store.Secrets
	Vault  *vault.Vault
	Roots  *x509.CertPool // verify the hosts of brokered secrets; nil is the system's
	Record func(event.Event)
	Now    func() time.Time
}

// Resolve returns the secrets of a request with the values of the stored secrets to which it refers: the caller's own, or else
// shared ones. They keep the name of the stored secret, for the operator who approves the request. Once the request is accepted, its
// caller must call RecordUse.
func (s *Secrets) Resolve(ctx context.Context, caller belljar.Caller, asked map[string]belljar.Secret) (map[string]belljar.Secret, Used, error) {
	if len(asked) == 0 {
		return nil, nil, nil
	}
	given, total := maps.Clone(asked), 0
	used := Used{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		got := given[name]
		if got.From != "" {
			value, shared, err := s.value(ctx, caller, name, got.From)
			if err != nil {
				return nil, nil, err
			}
			got.Value, used[got.From] = value, shared
			given[name] = got
		}
		total += len(got.Value)
	}
	if err := belljar.CheckSecretsSize(total); err != nil {
		return nil, nil, err
	}
	return given, used, nil
}

// Used are the names of the stored secrets of a request, and whether each is shared.
type Used map[string]bool

// RecordUse records the use of stored secrets.
func (s *Secrets) RecordUse(caller belljar.Caller, used Used) {
	for _, name := range slices.Sorted(maps.Keys(used)) {
		s.happened(event.SecretUsed, caller, name, used[name])
	}
}

// value returns the value of a stored secret, for the secret name of a request, and whether it is shared.
func (s *Secrets) value(ctx context.Context, caller belljar.Caller, name, from string) (value string, shared bool, err error) {
	for _, owner := range []string{caller.ID, sharedOwner} {
		row, err := s.Store.Get(ctx, owner, from)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return "", false, fault.Record("read the stored secret "+from, err)
		}
		plain, err := s.Vault.Open(row.Sealed, about(row))
		if err != nil {
			return "", false, &belljar.Error{
				Code: belljar.CodeConflict, Message: fmt.Sprintf("the stored secret %s was encrypted with another key than the server has", from), Err: err,
				Details: map[string]any{"field": "secrets." + name + ".from"}, Hint: "store it again: belljar secret set " + from,
			}
		}
		return string(plain), owner == sharedOwner, nil
	}
	return "", false, &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("there is no stored secret %s", from),
		Details: map[string]any{"field": "secrets." + name + ".from", "provided": from},
		Hint:    "store it on the server first: belljar secret set " + from,
	}
}

// kept is the recorded secrets of a run or session.
type kept struct {
	Secrets   map[string]belljar.Secret `json:"secrets"`
	Authority []byte                    `json:"authority,omitempty"` // that the sandbox trusts, for brokered secrets
}

// Seal encrypts the secrets of a run or session for its record; nil for none. id is the run's or session's.
func (s *Secrets) Seal(id string, secrets map[string]belljar.Secret, broker *placement.Broker) ([]byte, error) {
	if len(secrets) == 0 {
		return nil, nil
	}
	k := kept{Secrets: secrets}
	var err error
	if broker != nil {
		if k.Authority, err = broker.Egress.Authority.Marshal(); err != nil {
			return nil, err
		}
	}
	plain, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	return s.Vault.Seal(plain, id), nil
}

// Open decrypts the result of Seal.
func (s *Secrets) Open(id string, sealed []byte) (map[string]belljar.Secret, *placement.Broker, error) {
	if len(sealed) == 0 {
		return nil, nil, nil
	}
	plain, err := s.Vault.Open(sealed, id)
	if err != nil {
		return nil, nil, err
	}
	var k kept
	if err := json.Unmarshal(plain, &k); err != nil || k.Authority == nil {
		return k.Secrets, nil, err
	}
	authority, err := egress.ParseAuthority(k.Authority)
	if err != nil {
		return nil, nil, err
	}
	return k.Secrets, s.broker(k.Secrets, authority), nil
}

// Patterns returns the patterns that redact the values of secrets; nil for none.
func Patterns(secrets map[string]belljar.Secret) *redact.Patterns {
	var values []string
	for _, s := range secrets {
		values = append(values, s.Value)
	}
	return redact.New(values...)
}

// about is the context to which a stored secret's encryption is bound. No id of a run or session has a zero byte.
func about(s store.Secret) string { return s.Owner + "\x00" + s.Name }

func (s *Secrets) happened(name string, caller belljar.Caller, secret string, shared bool) {
	e := event.Event{Name: name, Caller: caller, Detail: map[string]string{"secret": secret}}
	if shared {
		e.Kind = "shared"
	}
	s.Record(e)
}
