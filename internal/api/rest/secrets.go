package rest

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// SecretList lists stored secrets, without their values.
type SecretList struct {
	Items []belljar.StoredSecret `json:"items"`
}

type secretPath struct {
	Name string `path:"name" doc:"The secret's name: letters, digits and underscores, at most 64"`
}

type secretRemoval struct {
	Name   string `path:"name" doc:"The secret's name"`
	Shared bool   `query:"shared" doc:"Remove the shared secret of that name; operators only"`
}

// addSecrets adds the operations about stored secrets.
func addSecrets(d *Door) {
	const of = api.Prefix + "/secrets"
	handle(d, huma.Operation{
		OperationID: "list-secrets", Method: http.MethodGet, Path: of, Tags: []string{"secrets"},
		Summary: "List the stored secrets", Description: "The caller's own and the shared ones, by name. Values are never returned.",
	}, func(c *call, _ *none, _ *none) (SecretList, error) {
		list, err := c.Secrets().List(c)
		return SecretList{filled(list)}, err
	})
	handle(d, huma.Operation{
		OperationID: "set-secret", Method: http.MethodPut, Path: of + "/{name}", Tags: []string{"secrets"},
		Summary: "Store a secret",
		Description: "It is encrypted at rest. Requests of the same user name it in secrets.NAME.from. One of that name gets the new value; runs and sessions " +
			"that have the old one keep it. With shared, which operators may set, every user may use it.",
	}, func(c *call, p *secretPath, body *belljar.SecretSpec) (belljar.StoredSecret, error) {
		return c.Secrets().Set(c, p.Name, *body)
	})
	command(d, huma.Operation{
		OperationID: "remove-secret", Method: http.MethodDelete, Path: of + "/{name}", Tags: []string{"secrets"},
		Summary: "Remove a stored secret", Description: "Runs and sessions that have it keep it.",
	}, func(c *call, p *secretRemoval) error {
		return c.Secrets().Remove(c, p.Name, p.Shared)
	})
}
