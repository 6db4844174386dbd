package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/belljar/belljar"
)

// Secrets gives access to the caller's stored secrets.
func (c *Client) Secrets() belljar.Secrets { return secrets{c} }

// secrets implements [belljar.Secrets].
type secrets struct{ c *Client }

// Set stores a secret.
func (s secrets) Set(ctx context.Context, name string, spec belljar.SecretSpec) (belljar.StoredSecret, error) {
	var set belljar.StoredSecret
	err := s.c.ask(ctx, request{method: http.MethodPut, path: route("secrets", name), send: spec}, &set)
	return set, err
}

// List returns the caller's own secrets and the shared ones.
func (s secrets) List(ctx context.Context) ([]belljar.StoredSecret, error) {
	return items[belljar.StoredSecret](ctx, s.c, nil, "secrets")
}

// Remove removes a secret. A retried request may not find it.
func (s secrets) Remove(ctx context.Context, name string, shared bool) error {
	query := url.Values{}
	if shared {
		query.Set("shared", "true")
	}
	return s.c.ask(ctx, request{method: http.MethodDelete, path: route("secrets", name), query: query, once: true}, nil)
}
