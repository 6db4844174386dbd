package rest_test

import (
	"context"

	"github.com/belljar/belljar"
)

// shelf holds the stored secrets of one world.
type shelf struct{ view }

func (v view) Secrets() belljar.Secrets { return shelf{v} }

func (s shelf) Set(_ context.Context, name string, spec belljar.SecretSpec) (belljar.StoredSecret, error) {
	if err := belljar.CheckSecretName("name", name); err != nil {
		return belljar.StoredSecret{}, err
	}
	if err := spec.Validate(); err != nil {
		return belljar.StoredSecret{}, err
	}
	if spec.Shared && !s.caller.Admin() {
		return belljar.StoredSecret{}, &belljar.Error{Code: belljar.CodeForbidden, Message: "only an operator shares secrets"}
	}
	set := belljar.StoredSecret{Name: name, Shared: spec.Shared, CreatedAt: now(), UpdatedAt: now()}
	s.secrets = append(s.secrets, set)
	return set, nil
}

func (s shelf) List(context.Context) ([]belljar.StoredSecret, error) { return s.secrets, nil }

func (s shelf) Remove(_ context.Context, name string, shared bool) error {
	for i, set := range s.secrets {
		if set.Name == name && set.Shared == shared {
			s.secrets = append(s.secrets[:i:i], s.secrets[i+1:]...)
			return nil
		}
	}
	return &belljar.Error{Code: belljar.CodeNotFound, Message: "there is no stored secret " + name}
}
