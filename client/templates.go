package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/belljar/belljar"
)

// Templates gives access to the caller's templates and the shared ones.
func (c *Client) Templates() belljar.Templates { return templates{c} }

// templates implements [belljar.Templates].
type templates struct{ c *Client }

// buildTime is added to Options.Silence for requests that wait for a build.
const buildTime = 2 * time.Hour

// Build makes a template. It is not retried after a broken connection, which ends the build.
func (x templates) Build(ctx context.Context, spec belljar.TemplateSpec) (belljar.Template, error) {
	var made belljar.Template
	return made, x.c.ask(ctx, request{method: http.MethodPost, path: route("templates"), send: spec, once: true, longer: buildTime}, &made)
}

// Get returns a template.
func (x templates) Get(ctx context.Context, name string) (belljar.Template, error) {
	var got belljar.Template
	return got, x.c.get(ctx, &got, nil, "templates", name)
}

// List returns the caller's templates and the shared ones.
func (x templates) List(ctx context.Context) ([]belljar.Template, error) {
	var list struct {
		Items []belljar.Template `json:"items"`
	}
	err := x.c.get(ctx, &list, nil, "templates")
	return list.Items, err
}

// Remove removes a template. A retried request may not find it.
func (x templates) Remove(ctx context.Context, name string, shared bool) error {
	query := url.Values{}
	if shared {
		query.Set("shared", "true")
	}
	return x.c.ask(ctx, request{method: http.MethodDelete, path: route("templates", name), query: query, once: true, longer: fileTime}, nil)
}
